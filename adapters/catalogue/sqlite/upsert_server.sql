INSERT INTO external_servers(id, name, transport_type, origin, registered_at, revision, server_info, capabilities, instructions,
	status, status_since, connected_at, last_health_check, response_time_ms, consecutive_failures, last_error, tool_count,
	tools_at, prompts_at, resources_at, templates_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT(id) DO UPDATE SET transport_type = CASE WHEN version IS NULL THEN excluded.transport_type ELSE transport_type END, -- of a registered server Put writes it
	origin = excluded.origin, revision = excluded.revision, server_info = excluded.server_info,
	capabilities = excluded.capabilities, instructions = excluded.instructions, status = excluded.status,
	status_since = excluded.status_since, connected_at = excluded.connected_at, last_health_check = excluded.last_health_check,
	response_time_ms = excluded.response_time_ms, consecutive_failures = excluded.consecutive_failures, last_error = excluded.last_error,
	tool_count = excluded.tool_count, tools_at = excluded.tools_at, prompts_at = excluded.prompts_at,
	resources_at = excluded.resources_at, templates_at = excluded.templates_at
