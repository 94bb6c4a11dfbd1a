// Package schema turns gRPC methods into MCP tools. It reads protobuf descriptors and knows no network: Files checks descriptors,
// Names and NewTool make tools of methods, and a Tool's codec translates arguments and results.
//
// # Shape
//
// The arguments of a tool are the request message in protobuf's JSON format (ProtoJSON), its result is the response message. MCP
// demands an object for arguments, and legacy clients demand one for results. A message whose JSON is no object (Timestamp, Duration,
// FieldMask, Value, ListValue and the wrappers) therefore becomes the member "value" of one. What a server-streaming method sends
// becomes {"messages": [...]}. Methods on which the client streams are refused: a tool call is one request.
//
// # Arguments
//
// inputSchema accepts what package protojson reads, in the notation that protojson itself writes. What protojson reads besides is left
// out, because a model needs one notation: original field names, null for an absent field, numbers of enum values, numbers of 32 bits
// and floating point in strings, exponents and fractions of integers in strings, base64 in the URL alphabet, and unusual spellings of
// times and durations. An integer of 64 bits may be a string or a number; a string keeps all digits in readers whose numbers are doubles.
//
// A schema cannot say everything that protojson refuses. It accepts integers in strings and map keys of as many digits as the type's limits,
// seconds of a duration above 10,000 years, days that a month does not have, years before 0001 or after 9999 by their offset, base64 of an
// impossible length, numbers beyond the range of a double, any content of an Any, and more than
// maxNesting levels. The codec refuses these.
//
// Rules of buf.validate and google.api.field_behavior make inputSchema stricter than protojson. A required field is in "required". An
// OUTPUT_ONLY field is "readOnly" and stays in inputSchema, because servers ignore it (AIP-203) and callers send back what they have
// read. Rules on strings of 64-bit integers, times, durations and Any, and CEL expressions are left to the server. So are patterns of
// RE2 that ECMA-262 does not know.
//
// # Results
//
// Results are written with protojson's EmitDefaultValues: a field without presence, a list and a map are always there. These, and required
// fields of proto2, are "required" in outputSchema. outputSchema is open to further members, and to numbers of enum values,
// so that results of a server that has been extended stay valid. It contains no validation rules, which servers apply to requests. An Any
// of a type that is not among the descriptors has its bytes as base64 in "value".
//
// Schemas are JSON Schema 2020-12 without "$schema", the default dialect of MCP: clients of older revisions refuse a dialect that they
// do not know. The root of inputSchema has no oneOf, anyOf, allOf or not, which model providers refuse there; rules on its
// oneofs stand under "then".
package schema
