// Package policies holds what stands between a request and its server: who may ask, from where, how much, and what is
// written down of it; a file each. What can be judged from a request's head is a proxy.Gate, everything else a
// proxy.Policy. What is switched off is a null object. Policies know no transport and no other policy.
package policies
