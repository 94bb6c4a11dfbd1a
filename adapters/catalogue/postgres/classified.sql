-- Categories of tools. Their servers need no row, as those of pins.
CREATE TABLE mcp.tool_skills (
	server_id     text NOT NULL,
	tool          bytea NOT NULL, -- a name, in any bytes that a server sends
	hash          bytea NOT NULL, -- of what was classified
	state         text NOT NULL,
	skill_ids     text[] NOT NULL, -- the primary one first
	confidences   float8[] NOT NULL,
	classified_by text NOT NULL,
	person        boolean NOT NULL, -- a person has classified it
	failures      integer NOT NULL,
	changed_at    timestamptz NOT NULL,
	claimed_by    text NOT NULL DEFAULT '',
	claimed_until timestamptz
);
-- A name may be longer than an index takes.
CREATE UNIQUE INDEX tool_skills_tool ON mcp.tool_skills(server_id, sha256(tool));
-- Categories as persons have changed them, in the place of those of the configuration.
CREATE TABLE mcp.categories (
	name        text PRIMARY KEY,
	description text NOT NULL,
	keywords    text[] NOT NULL,
	removed     boolean NOT NULL,
	changed_at  timestamptz NOT NULL
);
