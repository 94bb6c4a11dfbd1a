package shape

// excuses is why our verdict may differ from that of the official schemas. Each has to be needed.
func excuses() []*excuse {
	return []*excuse{
		// The text asks for more than the schema.
		{
			revisions: "2026-07-28", path: `/resultType$`, expected: `^("complete"|one of)`,
			reason: "basic §ResultType: a value that is not known is invalid; the schema takes any string",
		},
		{
			revisions: "2026-07-28", path: `^/result$`, expected: `^inputRequests or requestState is required$`,
			reason: "basic/patterns/mrtr §InputRequiredResult: at least one of the two; the schema has both optional",
		},
		{
			revisions: "2026-07-28", of: `list_changed|resources/updated|acknowledged`, path: `^(/params(/_meta(/.*subscriptionId)?)?)?$`, expected: `^(params|_meta|.*subscriptionId) is required|^a string or an integer$`,
			reason: "basic §_meta: what comes on a listen stream carries its id, and these come nowhere else; the schema has it optional",
		},
		{
			revisions: "2026-07-28", path: `/(id|jsonrpc)$`, expected: `^no (id|jsonrpc) here$`,
			reason: "basic/patterns/mrtr §InputRequests: a question within a result is no request of JSON-RPC; the schema is open",
		},
		{
			revisions: "2026-07-28", path: `^/error/code$`, expected: `^(not -32002|not -32042|no code of the range)`,
			reason: "basic §Error Codes: codes that must not be sent; the schema takes any",
		},
		{
			revisions: "2026-07-28", path: `/notifications/taskIds`,
			reason: "SEP-2663: a member of the extension, which the core's schema does not know",
		},
		{
			revisions: "2025-06-18|2025-11-25|2026-07-28", path: `/_meta/`, expected: `^a name of the form prefix/name`,
			reason: "basic §_meta: the grammar of the names; the schema has none",
		},
		{
			revisions: "2026-07-28", path: `/_meta/(traceparent|tracestate|baggage)$`,
			reason: "basic §_meta: these names are kept for trace contexts, in their formats; the schema has _meta open",
		},
		{
			of: `roots|^(tools/call|prompts/get|resources/read) `, path: `/roots/\d+/uri$`, expected: `^a URI that begins with file://`,
			reason: "client/roots §Root: file:// only; the schema takes any URI",
		},
		{
			revisions: "2025-11-25", of: `^result of tasks/result$`, path: `^/result`, expected: `related-task|^_meta is required`,
			reason: "basic/utilities/tasks §Related Task Metadata: the result says whose it is; the schema has _meta open",
		},
		{
			revisions: "2025-11-25", of: `^result of tasks/result$`, path: `^/result/_meta/io.modelcontextprotocol~1related-task`,
			reason: "the same, within",
		},
		{
			revisions: "2025-11-25", path: `/(createdAt|lastUpdatedAt)$`, expected: `^a time`,
			reason: "basic/utilities/tasks §TTL and Resource Management: times are as in ISO 8601; the schema takes any string",
		},
		{
			revisions: "2025-11-25", of: `^(tasks/(get|result|cancel)|notifications/elicitation/complete) `, path: `^/params/_meta`,
			reason: "the schema writes the params of tasks/* and elicitation/complete without _meta, which basic §_meta gives to all",
		},
		{
			revisions: "2025-06-18|2025-11-25|2026-07-28", path: `/requestedSchema/properties/[^/]+/(enum|enumNames|oneOf|minLength|maxLength|format|default)(/|$)`,
			reason: "client/elicitation §Requested Schema: a text with enum is an enumeration; the schema reads it as a plain text, too, whatever is in enum",
		},
		{
			path: `^/(id|result|error)$`, expected: `^no (id|result|error) here$`,
			reason: "basic §Messages: a notification has no id, a request no result, a response not both; the schema is open",
		},
		// The schema asks for what the text does not say.
		{
			looser: true, path: `^/method$`,
			reason: "methods that are not known belong to extensions",
		},
		{
			looser: true, revisions: "2025-06-18|2025-11-25", of: `^result of elicitation/create$`, path: `^/result/content/[^/]+$`,
			reason: "client/elicitation §Requested Schema: a field may be a number; the schema was made with integer",
		},
		{
			looser: true, revisions: "2026-07-28", of: `^(tools/call|prompts/get|resources/read) `, path: `/inputResponses/[^/]+/content/[^/0-9]+$`,
			reason: "the same, within the answers",
		},
		{
			looser: true, revisions: "2026-07-28",
			path:   `[cC]apabilities/((experimental|extensions)/[^/]+|logging|completions|(sampling|elicitation)/[^/]+)/.|/metadata/.`,
			reason: "JSONValue lost null and fractions when the schema was made; the text has any JSON",
		},
	}
}
