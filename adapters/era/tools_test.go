package era

import (
	"strconv"
	"strings"
	"testing"

	"dragoman/proxy"
)

// A server with tools without end fills no memory: one page as well as many.
func TestToolsAreBounded(t *testing.T) {
	page := func(from, n int) string {
		var b strings.Builder
		b.WriteString(`{"jsonrpc":"2.0","id":1,"result":{"tools":[`)
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(`{"name":"t` + strconv.Itoa(from+i) + `","execution":{"taskSupport":"required"}}`)
		}
		return b.String() + "]}}"
	}
	var x toolIndex
	for _, p := range []string{page(0, maxTools/2), page(maxTools, maxTools/2+1), page(0, maxTools+10)} {
		m, err := proxy.Scanned([]byte(p))
		if err != nil {
			t.Fatal(err)
		}
		x.learn(m)
		if len(x.tools) == 0 || len(x.tools) > maxTools {
			t.Errorf("%d tools", len(x.tools))
		}
	}
	if found, known := x.get("t" + strconv.Itoa(maxTools-1)); !known || !found.task {
		t.Error("tools up to the bound are not known")
	}
}
