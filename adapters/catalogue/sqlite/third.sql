-- Definitions that were approved. Their servers need no row: one of the configuration gets it later than its first pins.
CREATE TABLE pins (
	server_id   TEXT NOT NULL,
	kind        TEXT NOT NULL,
	key         TEXT NOT NULL,
	hash        BLOB NOT NULL, -- of what a model sees
	definition  BLOB NOT NULL, -- what a model sees, JSON
	approved_by TEXT NOT NULL,
	approved_at INTEGER NOT NULL,
	PRIMARY KEY (server_id, kind, key)
);
