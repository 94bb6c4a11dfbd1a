// Package subscriptions carries change notices across the eras.
//
// Bridges serve legacy sessions at a modern server: what a session has subscribed to, and the lists whose changes the server
// announces, become the filter of one subscriptions/listen (bridge*.go). Listens serve modern clients at a legacy server: a
// subscriptions/listen holds a session, subscribes in it and receives its notices (listen.go), or reads what is listened for where the
// server has no stream for notices (poll.go). Between modern parties a listen passes; one at a process is made again at the next
// process (reconnect.go).
//
// After every gap the client receives notices that everything has changed: servers replay nothing.
package subscriptions
