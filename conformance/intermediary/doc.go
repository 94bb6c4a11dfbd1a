// Package intermediary tests a proxy, a bridge or a gateway between clients and servers. It starts its own servers behind the
// intermediary, one of each kind, and is the client in front of it, at every face that it finds there.
//
// The checks are those of servers, since an intermediary is a server for its clients. The expected outcome is that of the same server
// without the intermediary: a deviation of that server is not a fault of the intermediary.
package intermediary
