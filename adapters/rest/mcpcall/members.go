package mcpcall

import "dragoman/proxy/wire"

// Members are the members of a JSON object, separated by commas, without the braces.
type Members []byte

// Add appends a member. The key needs no escaping; value is raw JSON.
func (p *Members) Add(key string, value []byte) { p.AddRaw([]byte(`"`+key+`"`), value) }

// AddRaw appends a member whose key is a JSON string.
func (p *Members) AddRaw(key, value []byte) {
	if len(*p) > 0 {
		*p = append(*p, ',')
	}
	*p = append(append(append(*p, key...), ':'), value...)
}

// AddText appends a member whose value is a string.
func (p *Members) AddText(key, value string) { p.Add(key, wire.AppendText(nil, value)) }

// Object returns the object that has the members.
func (p Members) Object() []byte {
	return append(append(append(make([]byte, 0, len(p)+2), '{'), p...), '}')
}
