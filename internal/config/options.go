package config

import "strings"

// LoadOptions is where [LoadConfig] looks.
type LoadOptions struct {
	// File is the path of the configuration file; "" for none.
	File string
	// Environ is the environment as os.Environ gives it.
	Environ []string
	// Flags are the settings given as flags, in order.
	Flags []Assignment
	// UpstreamFlags are keys below upstreams.NAME given on the command line.
	// They make the upstream "default" if they name a url or a command, else
	// they concern Pick or the only upstream there is.
	UpstreamFlags []Assignment
	// Pick keeps only the upstream of this name; "" keeps all.
	Pick string
}

// Assignment is one value from the command line.
type Assignment struct {
	Path  []string // the key; for UpstreamFlags below upstreams.NAME
	Value []string // one text, or the items of a list
	List  bool
	Name  string // as typed: "--listen", "URL", "COMMAND"
}

func (a Assignment) literal() Literal {
	if !a.List {
		return word(strings.Join(a.Value, ","))
	}
	list := Literal{Kind: listLiteral}
	for _, item := range a.Value {
		list.items = append(list.items, word(item))
	}
	return list
}
