// Package intermediary tests what stands between clients and servers: a proxy, a bridge, a gateway. It starts servers of its own behind
// it, one of each kind, and is the client in front, at every face that it finds there.
//
// The checks are those of servers: who meets an intermediary meets a server. What they have to find is what they find at the same
// server with nothing in between; what that server itself does not keep is not held against what stands before it.
package intermediary
