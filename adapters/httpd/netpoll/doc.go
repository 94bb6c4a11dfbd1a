// Package netpoll holds what the operating system offers beyond package net: a watcher that reports peers that have left, a look at
// an idle socket, a write that does not wait, sockets that give up the runtime's part of a connection, and congestion control on the
// loopback. On systems without one of these its functions do nothing, and say so. The package knows no HTTP.
package netpoll
