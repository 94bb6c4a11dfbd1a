package wire

import "testing"

func TestBuilder(t *testing.T) {
	b := NewBuilder([]byte(`[1,`))
	b.Add("none", nil)
	b.Add("a", []byte(`{}`))
	b.Some("empty", "")
	b.Text("b", "")
	b.Some("c", "\"\n")
	b.AddRaw([]byte(`"\u0064"`), []byte("4"))
	b.Key("e")
	b.Raw = append(b.Raw, '5')
	if got, want := string(b.Done()), `[1,{"a":{},"b":"","c":"\"\n","\u0064":4,"e":5}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := string((&Builder{Raw: []byte("{")}).Done()); got != "{}" {
		t.Error(got)
	}
}
