// Package policies holds what the policies have in common: name patterns, metrics, a sliding window, the form of API keys, and how a log
// line or an error names a request.
//
// The policies are the packages below it. Each stands between a request and its server: what can be judged by a request's head is a
// proxy.Gate, everything else a proxy.Policy. A policy knows no transport, and no package of policies knows another. What is switched
// off is nil or returns the handler that it was given.
package policies
