package registry

import (
	"context"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"dragoman/adapters/aggregator"
	"dragoman/internal/app/target"
	"dragoman/internal/config"
)

// A reload may open the store while the API, which was there before, is asked.
func TestOpenedWhileAsked(t *testing.T) {
	cfg := &config.Config{Catalogue: config.CatalogueConfig{Path: config.InMemory}, Aggregator: config.AggregatorConfig{ViewerScope: "view"}}
	r := New(Options{Log: zerolog.Nop(), Now: func() (*config.Config, *target.Set) { return cfg, &target.Set{} }})
	defer r.Close()
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		r.Open(cfg)
	}()
	for range 100 {
		if all := r.servers(false); len(all) != 0 {
			t.Errorf("there are %+v", all)
		}
	}
	<-opened
	if err := r.change(t.Context(), func(context.Context) (string, error) { return "", aggregator.NotFound("x") }); !strings.Contains(err.Error(), "not found") {
		t.Errorf("a change at the open store: %v", err)
	}
}
