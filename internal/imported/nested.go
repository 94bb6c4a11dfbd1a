package imported

// Nested returns how deep JSON is nested, so that a decoder is not given what would take its stack. Of what is no JSON it returns some number.
func Nested(data []byte) (deepest int) {
	now, text := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}
