package mock

import (
	"bufio"
	"bytes"
	"slices"
	"strings"
	"testing"

	"dragoman/conformance/peer"
)

func TestWords(t *testing.T) {
	server := []string{"/opt/my bin/dragoman", "conformance-mock", "/tmp/x/s"}
	for _, x := range []struct {
		argv, want string
		stdio      bool
	}{
		{"client", "client|http://h/mcp", false},
		{"client --at={url}", "client|--at=http://h/mcp", false},
		{"client {url} -- {command}", "client|http://h/mcp|--", false},
		{"client", "client|/opt/my bin/dragoman|conformance-mock|/tmp/x/s", true},
		{"client {url} {command} -v", "client||/opt/my bin/dragoman|conformance-mock|/tmp/x/s|-v", true},
		{"client --run={command}", "client|--run='/opt/my bin/dragoman' conformance-mock /tmp/x/s", true},
	} {
		var got []string
		if x.stdio {
			got = words(strings.Fields(x.argv), "", server)
		} else {
			got = words(strings.Fields(x.argv), "http://h/mcp", nil)
		}
		if strings.Join(got, "|") != x.want {
			t.Errorf("%s: %q, want %s", x.argv, got, x.want)
		}
	}
	if got := shellWords([]string{"it's", "", "a"}); got != `'it'\''s' '' a` {
		t.Error(got)
	}
}

// The placeholders of a command decide at which faces its client is tested.
func TestTestedFaces(t *testing.T) {
	http, lines := []peer.Face{peer.ModernHTTP, peer.LegacyHTTP, peer.SSE}, []peer.Face{peer.ModernStdio, peer.LegacyStdio}
	for _, x := range []struct {
		argv        string
		asked, want []peer.Face
	}{
		{"client", nil, http}, {"client {url}", nil, http}, {"client {command}", nil, lines}, {"client {url} {command}", nil, Faces()},
		{"client", lines[:1], lines[:1]}, {"client {url}", lines, nil}, {"client {command}", http, nil}, {"client {command}", lines[1:], lines[1:]},
		{"client", []peer.Face{peer.REST}, nil},
	} {
		var got []peer.Face
		for _, f := range peer.Faces() {
			if Tests(strings.Fields(x.argv), x.asked, f) {
				got = append(got, f)
			}
		}
		if !slices.Equal(got, x.want) {
			t.Errorf("%s at %v: %v, want %v", x.argv, x.asked, got, x.want)
		}
		if err := Check(strings.Fields(x.argv), x.asked); (err == nil) != (len(x.want) > 0) {
			t.Errorf("%s at %v: %v", x.argv, x.asked, err)
		}
	}
}

func TestFrames(t *testing.T) {
	var wire bytes.Buffer
	long := bytes.Repeat([]byte("x"), 2*maxFrame+1)
	if err := writeFrames(&wire, frameInput, long); err != nil {
		t.Fatal(err)
	}
	if err := writeFrames(&wire, frameEnd, nil); err != nil {
		t.Fatal(err)
	}
	var got []byte
	in := bufio.NewReader(&wire)
	for _, want := range []byte{frameInput, frameInput, frameInput, frameEnd} {
		kind, data, err := readFrame(in)
		if err != nil || kind != want {
			t.Fatal(kind, err)
		}
		got = append(got, data...)
	}
	if !bytes.Equal(got, long) {
		t.Errorf("%d bytes", len(got))
	}
	if _, _, err := readFrame(bufio.NewReader(strings.NewReader("i\xff\xff\xff\xff"))); err != errFrame {
		t.Error(err)
	}
	if _, _, err := readFrame(bufio.NewReader(strings.NewReader("i\x00\x00\x00\x05abc"))); err == nil {
		t.Error("a frame that is cut off was read")
	}
}
