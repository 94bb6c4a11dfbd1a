//go:build unix

package postgres

import (
	"testing"

	"dragoman/adapters/catalogue/storetest"
	"dragoman/internal/testkit/database"
)

func TestClassifications(t *testing.T) {
	p := database.Start(t)
	storetest.ClassificationStore(t, func(t *testing.T) (storetest.Sorted, func() storetest.Sorted) {
		url := p.Database(t)
		s := open(t, url, "")
		return s, func() storetest.Sorted {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			return open(t, url, "")
		}
	})
}
