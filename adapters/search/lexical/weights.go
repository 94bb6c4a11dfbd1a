package lexical

// The weights of the index: all that is tuned, nineteen numbers. None is about a single word, tool or query.

// fieldWeights say how much a word of a field counts.
var fieldWeights = [fields]float64{name: 2, title: 1.5, description: 1, parameter: 0.5, parameterText: 0.3, value: 0.3, output: 0.15}

// fieldLengths say from how many words on those of a field count less.
var fieldLengths = [fields]float64{name: shortLength, title: shortLength,
	description: textLength, parameter: textLength, parameterText: textLength, value: textLength, output: textLength}

const (
	shortLength   = 4.0  // of fields that are names
	textLength    = 30.0 // of all others, and of what is said of a server
	saturation    = 2.5  // k1 of BM25: how soon further occurrences of a word stop to count
	lengthening   = 0.5  // b of BM25: how much the length of a field counts
	alikeLeast    = 0.6  // the least likeness of a word of the index to one of the query that counts
	slipLikeness  = 0.75 // of words that are one slip apart
	alikeWeight   = 0.6  // of a word that is like one of the query
	partShare     = 0.6  // of the part of a query that fits best; the rest is the whole query's
	serverShare   = 0.4  // of what is said of the server, added to the tool's own
	categoryShare = 0.05 // of what is said of the category, added to the tool's own
	alikeMost     = 8    // words of the index that may stand for one of the query
	alikeRare     = 1000 // tools; a word of the query that more have stands for itself only
)
