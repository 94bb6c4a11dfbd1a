// Package legacy speaks streamable HTTP of the revisions 2025-03-26 to 2025-11-25: a client opens a session with
// initialize and names it in every later request; answers are JSON or event streams; a GET stream carries what belongs
// to no request; closing a connection cancels nothing.
package legacy
