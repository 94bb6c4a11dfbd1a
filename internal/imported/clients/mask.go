package clients

import (
	"regexp"
	"slices"

	"github.com/tailscale/hujson"

	"dragoman/internal/config/command"
)

// hiding are objects of a server whose values are not shown.
var hiding = []string{"env", "headers", "http_headers"}

// words matches where a word of a name such as primaryApiKey ends.
var words = regexp.MustCompile(`([a-z0-9])([A-Z])`)

const mask = `"(hidden)"`

// Masked returns a JSON file with "(hidden)" in the place of the values of headers and variables, and of texts whose names or forms say that they are
// secrets, in whatever notation. Other files are returned as they are.
func (c *Client) Masked(data []byte) []byte {
	if c.toml() || data == nil {
		return data
	}
	d, err := openJSON(data)
	if err != nil {
		return data
	}
	var spans [][2]int
	secrets(&d.root, "", false, &spans)
	masked := slices.Clone(d.data)
	for _, span := range slices.Backward(spans) {
		masked = slices.Concat(masked[:span[0]], []byte(mask), masked[span[1]:])
	}
	return masked
}

// secrets finds the places of texts that are not shown, in their order. name is that of the member that a value belongs to.
func secrets(v *hujson.Value, name string, hide bool, spans *[][2]int) {
	switch in := v.Value.(type) {
	case *hujson.Object:
		for i := range in.Members {
			key, _ := in.Members[i].Name.Value.(hujson.Literal)
			secrets(&in.Members[i].Value, key.String(), hide || slices.Contains(hiding, name), spans)
		}
	case *hujson.Array:
		before := ""
		for i := range in.Elements {
			text, _ := in.Elements[i].Value.(hujson.Literal)
			argument := text != nil && text.Kind() == '"' && before != "" && slices.ContainsFunc(command.Secrets([]string{before, text.String()}), func(s command.Secret) bool { return s.At == 1 })
			secrets(&in.Elements[i], "", hide || argument, spans)
			if before = ""; text != nil && text.Kind() == '"' {
				before = text.String()
			}
		}
	case hujson.Literal:
		if in.Kind() != '"' || len(in) <= 2 {
			return
		}
		text := in.String()
		if hide || len(command.Secrets([]string{text})) > 0 || name != "" && len(command.Secrets([]string{words.ReplaceAllString(name, "$1-$2") + "=" + text})) > 0 {
			*spans = append(*spans, [2]int{v.StartOffset, v.EndOffset})
		}
	}
}
