// Package shape validates messages of the Model Context Protocol against the official JSON Schemas of its five revisions. It reports
// where a message is wrong, what is expected there, what came, and which section of the specification says so.
//
//	for _, p := range shape.Message("2025-11-25", shape.Server, raw, "tools/list") {
//		fmt.Println(p) // /result/tools/0: inputSchema is required: an object; got nothing (2025-11-25 server/tools §Tool)
//	}
//
// It decodes JSON and shares nothing with the code that translates messages, so that it can judge that code. It judges one message at a
// time: ids, order and negotiated capabilities are the business of others. Members that no schema names are accepted, as are methods
// that no revision has.
//
// schemas holds the official schemas (schema.go reads them) and amendments.json, which adds what the text of a revision says and its
// schema does not. judge.go turns what the JSON Schema library reports into problems; of a union it takes the alternative that was
// meant. message.go knows the envelope, batches and error codes; sections.go says where a definition stands in the specification.
//
// testdata/cases.txt has messages, good and bad, at the edges of the revisions.
package shape
