package policies

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// registered is a counter, or what is registered already in its name: what counts goes on when its policy is made anew.
func registered[C prometheus.Collector](reg prometheus.Registerer, c C) (C, error) {
	err := reg.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if before, ok := already.ExistingCollector.(C); ok {
			return before, nil
		}
	}
	return c, err
}
