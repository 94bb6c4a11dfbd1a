-- The tables of seed 004. Several Dragomans share them. What a server says and lists is one row for all of them, how it is is a row for each.
CREATE TABLE mcp.external_servers (
	id                text PRIMARY KEY,
	name              text NOT NULL UNIQUE,
	transport_type    text NOT NULL,
	origin            bytea, -- tells apart servers that have the name one after the other
	registered_at     timestamptz NOT NULL,
	revision          text NOT NULL DEFAULT '',
	server_info       text,
	capabilities      text,
	instructions      text NOT NULL DEFAULT '',
	tool_count        integer NOT NULL DEFAULT 0,
	tools_at          timestamptz, -- when the server listed them last; NULL: never
	prompts_at        timestamptz,
	resources_at      timestamptz,
	templates_at      timestamptz,
	-- Of a server that was registered while Dragoman ran. version is NULL for all others.
	version           bigint,
	description       text,
	connection_config text, -- secrets are references, or sealed
	health_check_url  text,
	wanted            boolean, -- it should be connected
	disabled_tools    text[],
	updated_at        timestamptz
);

-- The Dragomans that run. One that has not been seen for a while has ended without a word.
CREATE TABLE mcp.instances (
	name       text PRIMARY KEY,
	started_at timestamptz NOT NULL DEFAULT now(),
	seen_at    timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE mcp.server_status (
	server_id            text NOT NULL REFERENCES mcp.external_servers(id) ON DELETE CASCADE,
	instance             text NOT NULL REFERENCES mcp.instances(name) ON DELETE CASCADE,
	status               text NOT NULL,
	status_since         timestamptz,
	connected_at         timestamptz,
	last_health_check    timestamptz,
	response_time_ms     bigint NOT NULL,
	consecutive_failures integer NOT NULL,
	last_error           text NOT NULL,
	PRIMARY KEY (server_id, instance)
);
CREATE INDEX server_status_instance ON mcp.server_status(instance);

CREATE TABLE mcp.tools (
	id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	source_server_id text NOT NULL REFERENCES mcp.external_servers(id) ON DELETE CASCADE,
	position         integer NOT NULL, -- in the server's list
	original_name    text NOT NULL,
	definition       text NOT NULL,    -- as the server sent it
	hash             bytea NOT NULL,   -- SHA-256 of definition
	created_at       timestamptz NOT NULL,
	updated_at       timestamptz NOT NULL,
	UNIQUE (source_server_id, original_name)
);

CREATE TABLE mcp.prompts (
	id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	source_server_id text NOT NULL REFERENCES mcp.external_servers(id) ON DELETE CASCADE,
	position         integer NOT NULL,
	original_name    text NOT NULL,
	definition       text NOT NULL,
	hash             bytea NOT NULL,
	created_at       timestamptz NOT NULL,
	updated_at       timestamptz NOT NULL,
	UNIQUE (source_server_id, original_name)
);

CREATE TABLE mcp.resources (
	id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	source_server_id text NOT NULL REFERENCES mcp.external_servers(id) ON DELETE CASCADE,
	position         integer NOT NULL,
	original_name    text NOT NULL, -- the URI
	definition       text NOT NULL,
	hash             bytea NOT NULL,
	created_at       timestamptz NOT NULL,
	updated_at       timestamptz NOT NULL,
	UNIQUE (source_server_id, original_name)
);

CREATE TABLE mcp.resource_templates (
	id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	source_server_id text NOT NULL REFERENCES mcp.external_servers(id) ON DELETE CASCADE,
	position         integer NOT NULL,
	original_name    text NOT NULL, -- the template
	definition       text NOT NULL,
	hash             bytea NOT NULL,
	created_at       timestamptz NOT NULL,
	updated_at       timestamptz NOT NULL,
	UNIQUE (source_server_id, original_name)
);

-- The server that listed a URI first. It keeps the URI also while it does not list it.
CREATE TABLE mcp.resource_owners (
	uri       text PRIMARY KEY,
	server_id text NOT NULL REFERENCES mcp.external_servers(id) ON DELETE CASCADE
);
CREATE INDEX resource_owners_server ON mcp.resource_owners(server_id);
