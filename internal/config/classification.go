package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"dragoman/adapters/classification"
	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
	"dragoman/proxy"
)

// ClassificationConfig says what sorts the tools of several servers into categories.
type ClassificationConfig struct {
	// Mode is "local" (default) for a comparison of words, "llm" for a large language model, or "off".
	Mode string
	// URL is that of an endpoint for chats as OpenAI has them, without /chat/completions; only with llm. With a Key it is https, or on the
	// loopback.
	URL   string
	Model string
	Key   value.Secret
	// CAFile is a PEM file of roots to trust instead of the system's; "": the system's.
	CAFile string
	// Timeout is for a connection, 100 ms to 30 s, default 10 s.
	Timeout time.Duration
	// Fallback classifies by words what the model fails to, until it does; default true.
	Fallback bool
}

// Category is a category of tools. Without any there is the standard set.
type Category struct {
	Name        string
	Description string
	Keywords    []string
}

// Values of [ClassificationConfig.Mode].
const (
	ClassifyLocally = "local"
	ClassifyByModel = "llm"
	ClassifyNothing = "off"
)

const (
	classificationTable = "classification."
	classificationCAKey = classificationTable + "ca_file"
	categoriesKey       = "categories"
)

// Categories returns the categories by name: the user's, or the standard set if there are none.
func (c *Config) Categories() (all []classification.Category) {
	if len(c.OwnCategories) == 0 {
		return classification.Standard()
	}
	for _, one := range c.OwnCategories {
		all = append(all, classification.Category{Name: one.Name, Description: one.Description, Keywords: one.Keywords})
	}
	slices.SortFunc(all, func(a, b classification.Category) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (c *Config) classificationKeys() []setting {
	x := &c.Classification
	return []setting{
		{key: classificationTable + "mode", std: ClassifyLocally, doc: "what sorts tools into categories: local, by their words; llm, a large language model; off, nothing",
			field: field.Enum{At: &x.Mode, Values: []string{ClassifyLocally, ClassifyByModel, ClassifyNothing}}},
		{key: classificationTable + UrlKey, std: "", doc: "endpoint for chats as OpenAI has them, without /chat/completions; for mode llm",
			field: field.Text{At: &x.URL, Empty: true, What: "an http or https URL without credentials", Check: checkChat}},
		{key: classificationTable + "model", std: "", doc: "name of the model; for mode llm", field: field.Text{At: &x.Model, Empty: true, Most: 256, What: "the name of a model"}},
		{key: classificationTable + "key", std: "", doc: "key of the endpoint, sent as a bearer token; empty: none", secret: true, field: field.Key{At: &x.Key, Check: checkHeaderValue, What: `the key, "env:NAME" or "file:/path"`}},
		{key: classificationCAKey, std: "", doc: "PEM file of the roots to trust for it instead of the system's", field: field.Text{At: &x.CAFile, What: "a PEM file", Empty: true}},
		{key: classificationTable + "timeout", std: "10s", doc: "how long connecting to it may take; an answer may take a minute", field: field.Duration{At: &x.Timeout, Least: 100 * time.Millisecond, Most: 30 * time.Second}},
		{key: classificationTable + "fallback", std: "true", doc: "whether tools are sorted by their words while the model fails; else they have no categories until it works", field: field.Bool{At: &x.Fallback}},
		{key: categoriesKey, doc: "categories of tools in the place of the standard set: description, keywords",
			open: entries[Category]{&c.OwnCategories, func(k *Category) string { return k.Name }, newCategory}.table(categoryParts)},
	}
}

// checkChat accepts the URL of an endpoint for chats.
func checkChat(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return &value.Problem{What: value.Quote(value.RedactURL(value.Shorten(text))) + " is not the URL of an endpoint", Fix: "write an http or https URL without credentials and query, such as http://127.0.0.1:11434/v1"}
	}
	return nil
}

// newCategory makes a category.
func newCategory(name string) (*Category, error) {
	if !classification.NameOK(name) {
		return nil, &value.Problem{What: value.Quote(value.Shorten(name)) + " is not a name for a category", Fix: "use at most 64 lower-case letters, digits and single underscores, a letter first"}
	}
	return &Category{Name: name}, nil
}

// categoryParts returns the keys of a category.
func categoryParts(k *Category) []setting {
	return []setting{
		{key: "description", doc: "what its tools are for, in a sentence", field: field.Text{At: &k.Description, Empty: true, Most: classification.MaxDescription, What: "a sentence of at most 1000 bytes, without control characters"}},
		{key: "keywords", doc: "words that its tools have in their definitions, or groups of words", field: field.List{At: &k.Keywords, Check: checkKeyword, What: `a list such as ["invoice", "exchange rate"]`, Most: classification.MaxKeywords, Commas: true}},
	}
}

func checkKeyword(item string) error {
	if !classification.KeywordOK(item) {
		return &value.Problem{What: value.Quote(value.Shorten(item)) + " is not a keyword", Fix: "write a word or a few, of at most 100 characters"}
	}
	return nil
}

// checkClassification reports a model that cannot be asked, and a key that others could read on its way.
func (c *Config) checkClassification(fail func(key string, from value.Source, what, fix string)) {
	x := &c.Classification
	report := func(key, what, fix string) { fail(key, c.sources[key], what, fix) }
	if n := len(c.OwnCategories); n > classification.MaxCategories {
		report(categoriesKey, fmt.Sprintf("has %d categories; at most %d are allowed", n, classification.MaxCategories), "leave some out")
	}
	if x.Mode != ClassifyByModel {
		return
	}
	if x.URL == "" {
		report(classificationTable+UrlKey, "is missing: "+classificationTable+"mode is llm", "write the URL of an endpoint for chats, such as http://127.0.0.1:11434/v1")
	}
	if x.Model == "" {
		report(classificationTable+"model", "is missing: "+classificationTable+"mode is llm", "write the name of a model that the endpoint has")
	}
	if u, err := url.Parse(x.URL); err == nil && x.Key.Reveal() != "" && u.Scheme == "http" && !proxy.IsLoopbackHost(u.Hostname()) {
		report(classificationTable+"key", "would be sent in the clear to "+value.Shorten(u.Hostname()), "write an https URL")
	}
}
