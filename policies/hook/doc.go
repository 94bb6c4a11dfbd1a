// Package hook asks a decision point of the operator's whether a request may go to its server, and whether its result may go to the
// client. The question is in the form of the Open Policy Agent's data API: a POST of {"input": …}, answered with {"result": …}.
//
// Only a permission permits: an answer of any other form is a denial. An answer is kept as long as it says itself, and equal questions
// at a time share one. How a question is sent is not this package's business: see [Options.Ask].
package hook
