-- The tables of seed 004, in a file of their own instead of the schema mcp. Times are milliseconds since 1970; 0: none.
CREATE TABLE external_servers (
	id                   TEXT PRIMARY KEY,
	name                 TEXT NOT NULL UNIQUE,
	transport_type       TEXT NOT NULL,
	origin               BLOB, -- tells apart servers that have the name one after the other
	registered_at        INTEGER NOT NULL,
	revision             TEXT NOT NULL,
	server_info          BLOB,
	capabilities         BLOB,
	instructions         TEXT NOT NULL,
	status               TEXT NOT NULL,
	status_since         INTEGER NOT NULL,
	connected_at         INTEGER NOT NULL,
	last_health_check    INTEGER NOT NULL,
	response_time_ms     INTEGER NOT NULL,
	consecutive_failures INTEGER NOT NULL,
	last_error           TEXT NOT NULL,
	tool_count           INTEGER NOT NULL,
	tools_at             INTEGER, -- when the server listed them last; NULL: never
	prompts_at           INTEGER,
	resources_at         INTEGER,
	templates_at         INTEGER
);

CREATE TABLE tools (
	id               INTEGER PRIMARY KEY,
	source_server_id TEXT NOT NULL REFERENCES external_servers(id) ON DELETE CASCADE,
	position         INTEGER NOT NULL, -- in the server's list
	original_name    TEXT NOT NULL,
	definition       TEXT NOT NULL,    -- as the server sent it
	hash             BLOB NOT NULL,    -- SHA-256 of definition
	created_at       INTEGER NOT NULL,
	updated_at       INTEGER NOT NULL,
	description      TEXT GENERATED ALWAYS AS (definition ->> '$.description') VIRTUAL,
	input_schema     TEXT GENERATED ALWAYS AS (definition -> '$.inputSchema') VIRTUAL,
	UNIQUE (source_server_id, original_name)
);

CREATE TABLE prompts (
	id               INTEGER PRIMARY KEY,
	source_server_id TEXT NOT NULL REFERENCES external_servers(id) ON DELETE CASCADE,
	position         INTEGER NOT NULL,
	original_name    TEXT NOT NULL,
	definition       TEXT NOT NULL,
	hash             BLOB NOT NULL,
	created_at       INTEGER NOT NULL,
	updated_at       INTEGER NOT NULL,
	UNIQUE (source_server_id, original_name)
);

CREATE TABLE resources (
	id               INTEGER PRIMARY KEY,
	source_server_id TEXT NOT NULL REFERENCES external_servers(id) ON DELETE CASCADE,
	position         INTEGER NOT NULL,
	original_name    TEXT NOT NULL, -- the URI
	definition       TEXT NOT NULL,
	hash             BLOB NOT NULL,
	created_at       INTEGER NOT NULL,
	updated_at       INTEGER NOT NULL,
	UNIQUE (source_server_id, original_name)
);

CREATE TABLE resource_templates (
	id               INTEGER PRIMARY KEY,
	source_server_id TEXT NOT NULL REFERENCES external_servers(id) ON DELETE CASCADE,
	position         INTEGER NOT NULL,
	original_name    TEXT NOT NULL, -- the template
	definition       TEXT NOT NULL,
	hash             BLOB NOT NULL,
	created_at       INTEGER NOT NULL,
	updated_at       INTEGER NOT NULL,
	UNIQUE (source_server_id, original_name)
);

-- The server that listed a URI first. It keeps the URI also while it does not list it.
CREATE TABLE resource_owners (
	uri       TEXT PRIMARY KEY,
	server_id TEXT NOT NULL REFERENCES external_servers(id) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX resource_owners_server ON resource_owners(server_id);
