-- What the vectors have in common: one row.
CREATE TABLE IF NOT EXISTS tool_vectors_space (
    model     TEXT NOT NULL,
    dimension INTEGER NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS tool_vectors (
    server     TEXT NOT NULL,
    tool       TEXT NOT NULL,
    sum        BLOB NOT NULL, -- SHA-256 of the text that the vector is of
    categories TEXT NOT NULL, -- a JSON array
    vector     BLOB NOT NULL, -- 32-bit floats, little-endian
    PRIMARY KEY (server, tool)
) STRICT;
