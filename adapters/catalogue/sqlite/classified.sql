-- Categories of tools. Their servers need no row, as those of pins.
CREATE TABLE tool_skills (
	server_id     TEXT NOT NULL,
	tool          TEXT NOT NULL,
	hash          BLOB NOT NULL,    -- of what was classified
	state         TEXT NOT NULL,
	skills        TEXT NOT NULL,    -- a JSON array, the primary one first
	classified_by TEXT NOT NULL,
	person        INTEGER NOT NULL, -- a person has classified it
	failures      INTEGER NOT NULL,
	changed_at    INTEGER NOT NULL,
	claimed_by    TEXT NOT NULL DEFAULT '',
	claimed_until INTEGER NOT NULL DEFAULT 0,
	PRIMARY KEY (server_id, tool)
);
-- Categories as persons have changed them, in the place of those of the configuration.
CREATE TABLE categories (
	name        TEXT NOT NULL PRIMARY KEY,
	description TEXT NOT NULL,
	keywords    TEXT NOT NULL,    -- a JSON array
	removed     INTEGER NOT NULL,
	changed_at  INTEGER NOT NULL
);
