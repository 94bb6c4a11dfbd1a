package wire

// Builder writes a JSON object member by member. Raw holds what has been written, and ends with the opening brace of the object at first; what
// is before that is kept. Keys need no escaping, unless they are raw JSON.
type Builder struct{ Raw []byte }

// NewBuilder returns a Builder that writes behind dst.
func NewBuilder(dst []byte) *Builder { return &Builder{append(dst, '{')} }

// Key begins a member; the caller appends its value to Raw.
func (b *Builder) Key(key string) {
	b.next()
	b.Raw = append(append(append(b.Raw, '"'), key...), `":`...)
}

func (b *Builder) next() {
	if b.Raw[len(b.Raw)-1] != '{' {
		b.Raw = append(b.Raw, ',')
	}
}

// Add appends a member unless its value, raw JSON, is nil.
func (b *Builder) Add(key string, value []byte) {
	if value != nil {
		b.Key(key)
		b.Raw = append(b.Raw, value...)
	}
}

// Text appends a member that is a string.
func (b *Builder) Text(key, value string) {
	b.Key(key)
	b.Raw = AppendText(b.Raw, value)
}

// Some appends a member that is a string, unless that is empty.
func (b *Builder) Some(key, value string) {
	if value != "" {
		b.Text(key, value)
	}
}

// AddRaw appends a member whose key is raw JSON.
func (b *Builder) AddRaw(key, value []byte) {
	b.next()
	b.Raw = append(append(append(b.Raw, key...), ':'), value...)
}

// Done closes the object and returns Raw. Nothing may be added afterwards.
func (b *Builder) Done() []byte { return append(b.Raw, '}') }
