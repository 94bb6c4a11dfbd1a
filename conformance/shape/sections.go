package shape

import "strings"

// results are the definitions of the results of requests, by method: those that a revision has.
var results = map[string][]string{
	"initialize": {"InitializeResult"}, "ping": {"EmptyResult"}, "server/discover": {"DiscoverResult"}, "logging/setLevel": {"EmptyResult"},
	"subscriptions/listen": {"SubscriptionsListenResult"},
	"tools/list":           {"ListToolsResult"}, "tools/call": {"CallToolResult", "InputRequiredResult", "CreateTaskResult"},
	"resources/list": {"ListResourcesResult"}, "resources/templates/list": {"ListResourceTemplatesResult"},
	"resources/read":      {"ReadResourceResult", "InputRequiredResult"},
	"resources/subscribe": {"EmptyResult"}, "resources/unsubscribe": {"EmptyResult"},
	"prompts/list": {"ListPromptsResult"}, "prompts/get": {"GetPromptResult", "InputRequiredResult"}, "completion/complete": {"CompleteResult"},
	"roots/list": {"ListRootsResult"}, "sampling/createMessage": {"CreateMessageResult", "CreateTaskResult"}, "elicitation/create": {"ElicitResult", "CreateTaskResult"},
	"tasks/get": {"GetTaskResult"}, "tasks/cancel": {"CancelTaskResult"}, "tasks/list": {"ListTasksResult"}, "tasks/result": {"GetTaskPayloadResult"},
	"tasks/update": {"UpdateTaskResult"},
}

// sections maps methods, definitions and members (with a dot) to sections of the specification. The text of a definition stands with
// its method if it is not here.
var sections = map[string]string{ //nolint:gosec // G101: names of sections, no credentials
	"initialize":                           "basic/lifecycle §Initialization",
	"notifications/initialized":            "basic/lifecycle §Initialization",
	"server/discover":                      "server/discover §Response",
	"ping":                                 "basic/utilities/ping §Message Format",
	"notifications/cancelled":              "cancellation §Cancellation Flow",
	"notifications/progress":               "progress §Progress Flow",
	"logging/setLevel":                     "server/utilities/logging §Setting Log Level",
	"notifications/message":                "server/utilities/logging §Log Message Notifications",
	"subscriptions/listen":                 "basic/patterns/subscriptions §Opening a Stream",
	"tools/list":                           "server/tools §Listing Tools",
	"tools/call":                           "server/tools §Calling Tools",
	"resources/list":                       "server/resources §Listing Resources",
	"resources/templates/list":             "server/resources §Resource Templates",
	"resources/read":                       "server/resources §Reading Resources",
	"resources/subscribe":                  "server/resources §Subscriptions",
	"resources/unsubscribe":                "server/resources §Subscriptions",
	"notifications/resources/updated":      "server/resources §Subscriptions",
	"notifications/tools/list_changed":     "server §List Changed Notification",
	"notifications/resources/list_changed": "server §List Changed Notification",
	"notifications/prompts/list_changed":   "server §List Changed Notification",
	"prompts/list":                         "server/prompts §Listing Prompts",
	"prompts/get":                          "server/prompts §Getting a Prompt",
	"completion/complete":                  "server/utilities/completion §Requesting Completions",
	"roots/list":                           "client/roots §Listing Roots",
	"notifications/roots/list_changed":     "client/roots §Listing Roots",
	"sampling/createMessage":               "client/sampling §Creating Messages",
	"elicitation/create":                   "client/elicitation §Elicitation Requests",
	"notifications/elicitation/complete":   "client/elicitation §Completion Notifications for URL Mode Elicitation",
	"tasks/get":                            "basic/utilities/tasks §Getting Tasks",
	"tasks/cancel":                         "basic/utilities/tasks §Cancelling Tasks",
	"tasks/list":                           "basic/utilities/tasks §Listing Tasks",
	"tasks/result":                         "basic/utilities/tasks §Retrieving Task Results",
	"tasks/update":                         "SEP-2663 §Task Update Requests",
	"notifications/tasks/status":           "basic/utilities/tasks §Task Status Notification",
	"notifications/tasks":                  "SEP-2663 §Task Status Notifications",

	"notifications/subscriptions/acknowledged": "basic/patterns/subscriptions §Acknowledgment",

	"JSONRPCRequest": "basic §Requests", "JSONRPCNotification": "basic §Notifications", "JSONRPCResponse": "basic §Responses", "JSONRPCResultResponse": "basic §Responses",
	"JSONRPCError": "basic §Responses", "JSONRPCErrorResponse": "basic §Responses", "Error": "basic §Responses", "RequestId": "basic §Requests",
	"UnsupportedProtocolVersionError": "basic §Error Codes", "MissingRequiredClientCapabilityError": "basic §Error Codes",
	"URLElicitationRequiredError": "client/elicitation §URL Elicitation Required Error",

	"._meta": "basic §_meta", "MetaObject": "basic §_meta", "RequestMetaObject": "basic §_meta", "NotificationMetaObject": "basic §_meta", "ResultMetaObject": "basic §_meta",
	"ListenMetaObject":                    "basic/patterns/subscriptions §Receiving Notifications",
	"SubscriptionsListenResultMetaObject": "basic/patterns/subscriptions §Graceful Closure",
	"RelatedTaskMetadata":                 "basic/utilities/tasks §Related Task Metadata",
	"ProgressToken":                       "progress §Progress Flow",
	".resultType":                         "basic §ResultType",
	".ttlMs":                              "server/utilities/caching §Time-to-Live (TTL) Field",
	".cacheScope":                         "server/utilities/caching §Cache Scope Field",
	".cursor":                             "server/utilities/pagination §Request Format",
	".nextCursor":                         "server/utilities/pagination §Response Format",
	"Implementation":                      "schema §Implementation",
	"Icon":                                "basic §icons",
	"LoggingLevel":                        "server/utilities/logging §Log Levels",
	"ClientCapabilities":                  "client §Capabilities",
	"ServerCapabilities":                  "server §Capabilities",
	"SubscriptionFilter":                  "basic/patterns/subscriptions §Notification Filter",
	"InputRequiredResult":                 "basic/patterns/mrtr §InputRequiredResult",
	"InputRequests":                       "basic/patterns/mrtr §InputRequests",
	"InputRequest":                        "basic/patterns/mrtr §InputRequests",
	"InputResponses":                      "basic/patterns/mrtr §InputResponses",
	"InputResponse":                       "basic/patterns/mrtr §InputResponses",

	"Tool": "server/tools §Tool", "ToolAnnotations": "server/tools §Tool", "ToolExecution": "server/tools §Tool", "CallToolResult": "server/tools §Tool Result",
	"ContentBlock": "server/tools §Tool Result", "TextContent": "server/tools §Tool Result", "ImageContent": "server/tools §Tool Result", "AudioContent": "server/tools §Tool Result",
	"ResourceLink": "server/tools §Tool Result", "EmbeddedResource": "server/tools §Tool Result", "Annotations": "server/resources §Annotations", "Annotated": "server/resources §Annotations",
	"Role": "server/resources §Annotations", "Resource": "server/resources §Resource", "ResourceTemplate": "server/resources §Resource Templates",
	"TextResourceContents": "server/resources §Resource Contents", "BlobResourceContents": "server/resources §Resource Contents",
	"Prompt": "server/prompts §Prompt", "PromptArgument": "server/prompts §Prompt", "PromptMessage": "server/prompts §PromptMessage",
	"PromptReference": "server/utilities/completion §Reference Types", "ResourceReference": "server/utilities/completion §Reference Types",
	"ResourceTemplateReference": "server/utilities/completion §Reference Types", "CompleteResult": "server/utilities/completion §Completion Results",

	"Root": "client/roots §Root", "SamplingMessage": "client/sampling §Messages", "SamplingMessageContentBlock": "client/sampling §Messages",
	"ModelPreferences": "client/sampling §Model Preferences", "ModelHint": "client/sampling §Model Preferences",
	"ToolUseContent": "client/sampling §Sampling with Tools", "ToolResultContent": "client/sampling §Sampling with Tools", "ToolChoice": "client/sampling §Sampling with Tools",
	"ElicitRequestFormParams": "client/elicitation §Form Mode Elicitation Requests", "ElicitRequestURLParams": "client/elicitation §URL Mode Elicitation Requests",
	"ElicitResult": "client/elicitation §Response Actions", "PrimitiveSchemaDefinition": "client/elicitation §Requested Schema", "StringSchema": "client/elicitation §Requested Schema",
	"NumberSchema": "client/elicitation §Requested Schema", "BooleanSchema": "client/elicitation §Requested Schema", "EnumSchema": "client/elicitation §Requested Schema",

	"Task": "basic/utilities/tasks §Task", "TaskStatus": "basic/utilities/tasks §Task Status", "TaskMetadata": "basic/utilities/tasks §Creating Tasks",
	"TaskHandle": "SEP-2663 §Tasks", "TaskState": "SEP-2663 §Task Polling", "TaskUnderWay": "SEP-2663 §Task Polling", "TaskAsking": "SEP-2663 §Task Polling",
	"TaskCompleted": "SEP-2663 §Task Polling", "TaskFailed": "SEP-2663 §Task Polling",
}

// section returns the section of a method or definition, or another if it has none.
func section(method, otherwise string) string {
	if found := sections[method]; found != "" {
		return found
	}
	return otherwise
}

// section returns the most precise section: that of the member, the definition, or the message.
func (f finding) section(message string) string {
	member := f.missing
	if member == "" && len(f.at) > 0 {
		member = f.at[len(f.at)-1]
	}
	if found := sections["."+member]; found != "" {
		return found
	}
	if strings.HasSuffix(f.def, "EnumSchema") {
		return sections["EnumSchema"]
	}
	return section(f.def, message)
}
