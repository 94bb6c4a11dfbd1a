package field

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/goccy/go-json"

	"dragoman/adapters/rules"
	"dragoman/internal/config/value"
)

// List is a field for a list of text. In the environment it is a JSON array, or separated by commas if Commas is true.
type List struct {
	At     *[]string
	Check  func(item string) error
	What   string
	Least  int
	Most   int
	Commas bool
	Words  []string // all possible entries, if they are few: for completion
}

// Set implements [Field].
func (f List) Set(v value.Literal) error {
	if v.Kind == value.WordLiteral {
		var err error
		if v, err = f.split(v.Text); err != nil {
			return err
		}
	}
	if v.Kind != value.ListLiteral {
		return value.Problemf("must be a list, not %s", v.Kind)
	}
	items := f.parts(v.Items)
	if len(items) < f.Least {
		return value.Problemf("is empty")
	}
	if len(items) > f.Most {
		return value.Problemf("has %d entries; at most %d are allowed", len(items), f.Most)
	}
	list := make([]string, 0, len(items))
	for i, item := range items {
		text, ok := item.ScalarText()
		if !ok {
			return value.Problemf("entry %d must be text, not %s", i+1, item.Kind)
		}
		if err := f.Check(text); err != nil {
			return fmt.Errorf("entry %d: %w", i+1, err)
		}
		list = append(list, text)
	}
	*f.At = list
	return nil
}

// split parses the text of a flag or a variable.
func (f List) split(text string) (value.Literal, error) {
	list := value.Literal{Kind: value.ListLiteral}
	switch {
	case strings.HasPrefix(strings.TrimSpace(text), "["):
		var items []string
		if err := json.Unmarshal([]byte(text), &items); err != nil {
			return list, value.Problemf("is not a JSON array of strings")
		}
		for _, item := range items {
			list.Items = append(list.Items, value.Literal{Kind: value.QuotedLiteral, Text: item})
		}
	case !f.Commas:
		return list, &value.Problem{What: "must be a JSON array of strings: commands are never split like a shell does", Fix: `write ["COMMAND", "ARGUMENT"]`}
	default:
		list.Items = []value.Literal{value.Word(text)}
	}
	return list, nil
}

// parts splits the words among items at their commas. Each use of a flag, and a variable, is a word.
func (f List) parts(items []value.Literal) []value.Literal {
	if !f.Commas {
		return items
	}
	var all []value.Literal
	for _, item := range items {
		if item.Kind != value.WordLiteral {
			all = append(all, item)
			continue
		}
		for part := range strings.SplitSeq(item.Text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				all = append(all, value.Literal{Kind: value.QuotedLiteral, Text: part})
			}
		}
	}
	return all
}

// Text implements [Field].
func (f List) Text() string {
	items := make([]string, 0, len(*f.At))
	for _, item := range *f.At {
		items = append(items, value.Quote(item))
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// Notation implements [Field].
func (f List) Notation() Notation {
	item := Shape{Type: scalarTypes}
	if len(f.Words) > 0 {
		item = Shape{Type: StringType, Enum: f.Words}
	}
	return Notation{Kind: "list", Bounds: strings.TrimPrefix(strings.TrimPrefix(f.What, "a list "), "of "), Allowed: f.What,
		Shape: Shape{Type: JsonTypes{"array"}, Items: &item, MinItems: f.Least, MaxItems: f.Most}}
}

// CheckHostEntry accepts host or host:port, as a Host header has it.
func CheckHostEntry(item string) error {
	host := item
	if h, port, err := net.SplitHostPort(item); err == nil {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > MostPort {
			return value.Problemf("%q has no valid port", value.Shorten(item))
		}
		host = h
	}
	if !validHost(strings.Trim(host, "[]")) {
		return value.Problemf("%q is neither a host nor host:port", value.Shorten(item))
	}
	return nil
}

// CheckOrigin accepts scheme://host[:port] as browsers send it (RFC 6454 §6.1).
// "*" is not an origin: it would undo the defence against DNS rebinding.
func CheckOrigin(item string) error {
	u, err := url.Parse(item)
	if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return value.Problemf("%q is not an origin", value.Shorten(item))
	}
	return nil
}

// Network parses an address, or a network in CIDR notation.
func Network(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err == nil && p.Masked() != p {
		return p, fmt.Errorf("the network of %s is %s", text, p.Masked())
	}
	return p, err
}

// CheckNetwork accepts an address, or a network in CIDR notation.
func CheckNetwork(item string) error {
	if _, err := Network(item); err != nil {
		return value.Problemf("%q is neither an address nor a network", value.Shorten(item))
	}
	return nil
}

// CheckEra accepts modern, legacy and every supported revision.
func CheckEra(item string) error {
	if _, err := rules.Allow([]string{item}); err != nil {
		if near := value.Nearest(item, append(rules.Versions(), "modern", "legacy")); near != "" {
			return value.Problemf("%q is not known; did you mean %q?", value.Shorten(item), near)
		}
		return value.Problemf("%q is not known", value.Shorten(item))
	}
	return nil
}

// CheckArgument accepts what execve can pass on: text without NUL bytes.
func CheckArgument(item string) error {
	if strings.ContainsRune(item, 0) {
		return value.Problemf("contains a NUL byte")
	}
	return nil
}
