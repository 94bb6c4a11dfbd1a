package rules

import (
	"fmt"
	"strings"
	"testing"

	"dragoman/proxy"
)

func TestAllow(t *testing.T) {
	f := func(entries, versions string) {
		t.Helper()
		a, err := Allow(strings.Fields(entries))
		got := fmt.Sprint(a.Versions())
		if err != nil {
			got = err.Error()
		}
		if got != versions {
			t.Errorf("Allow(%s) = %s, want %s", entries, got, versions)
		}
	}
	all := fmt.Sprint(Versions())
	f("", all)
	f("modern legacy", all)
	f("modern", "[2026-07-28]")
	f("legacy", "[2025-11-25 2025-06-18 2025-03-26 2024-11-05]")
	f("2024-11-05 modern 2025-11-25 2025-11-25", "[2026-07-28 2025-11-25 2024-11-05]")
	f("modern 2025-01-01", `era: "2025-01-01" is neither modern, legacy nor a revision`)
	f("auto", `era: "auto" is neither modern, legacy nor a revision`)
	if a, _ := Allow([]string{"legacy", "modern"}); !a.All() || !(Allowed{}).All() {
		t.Error("a set of all is not all")
	}
	if a, _ := Allow([]string{"legacy"}); a.All() || a.Has("2026-07-28") || !a.Has("2024-11-05") {
		t.Error("legacy")
	}
}

func TestAllowedSettle(t *testing.T) {
	f := func(entries, requested, want string) {
		t.Helper()
		a, err := Allow(strings.Fields(entries))
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Settle(requested); got != want {
			t.Errorf("%s: Settle(%s) = %q, want %q", entries, requested, got, want)
		}
	}
	for _, v := range append(Versions(), "", "1999-01-01", "2031-01-01") {
		f("", v, Settle(v)) // without a limit the table itself is returned
	}
	f("2025-03-26 2025-06-18", "2025-11-25", "2025-06-18")
	f("2025-03-26 2025-06-18", "2025-03-26", "2025-03-26")
	f("2025-03-26 2025-06-18", "2024-11-05", "2025-06-18")
	f("modern", "2025-11-25", "")
}

func TestRefusal(t *testing.T) {
	legacy, _ := Allow([]string{"2025-06-18"})
	if e := legacy.Refusal(ModernVersion); e == nil || e.Code != proxy.CodeInvalidRequest || e.Status != 400 || e.Data != nil || !strings.Contains(e.Message, "send initialize with one of 2025-06-18") {
		t.Errorf("%+v", e)
	}
	if proxy.BadVersion.Code != proxy.CodeUnsupportedVersion {
		t.Error("the table was changed")
	}
	modern, _ := Allow([]string{"modern"})
	if e := modern.Refusal(ModernVersion); e != nil {
		t.Error(e)
	}
	if e := modern.Refusal("2031-01-01"); e == nil || e.Code != proxy.CodeUnsupportedVersion || string(e.Data) != `{"supported":["2026-07-28"],"requested":"2031-01-01"}` {
		t.Errorf("%+v", e)
	}
}
