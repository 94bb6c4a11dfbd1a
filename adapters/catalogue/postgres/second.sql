-- Definitions that were approved. Their servers need no row: one of the configuration gets it later than its first pins.
CREATE TABLE mcp.pins (
	server_id   text NOT NULL,
	kind        text NOT NULL,
	key         bytea NOT NULL, -- a name or a URI template, in any bytes that a server sends
	hash        bytea NOT NULL, -- of what a model sees
	definition  bytea NOT NULL, -- what a model sees, JSON
	approved_by text NOT NULL,
	approved_at timestamptz NOT NULL
);
-- A key may be longer than an index takes.
CREATE UNIQUE INDEX pins_key ON mcp.pins(server_id, kind, sha256(key));
