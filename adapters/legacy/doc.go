// Package legacy implements streamable HTTP of the revisions 2025-03-26 to 2025-11-25, for clients and servers. A client
// opens a session with initialize and names it in every later request. Answers are JSON or event streams. A GET stream
// carries messages that belong to no request. Closing a connection cancels nothing.
package legacy
