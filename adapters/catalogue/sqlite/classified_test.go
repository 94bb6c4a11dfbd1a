package sqlite

import (
	"path/filepath"
	"testing"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/catalogue/storetest"
)

func TestClassifications(t *testing.T) {
	storetest.ClassificationStore(t, func(t *testing.T) (catalogue.Classifications, func() catalogue.Classifications) {
		path := filepath.Join(t.TempDir(), "catalogue.db")
		s := open(t, path)
		return s, func() catalogue.Classifications {
			_ = s.Close()
			return open(t, path)
		}
	})
}
