package sqlite

import (
	"path/filepath"
	"testing"

	"dragoman/adapters/catalogue/storetest"
)

func TestClassifications(t *testing.T) {
	storetest.ClassificationStore(t, func(t *testing.T) (storetest.Sorted, func() storetest.Sorted) {
		path := filepath.Join(t.TempDir(), "catalogue.db")
		s := open(t, path)
		return s, func() storetest.Sorted {
			_ = s.Close()
			return open(t, path)
		}
	})
}
