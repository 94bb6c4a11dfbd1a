//go:build !unix

package httpd

// watcher sees nothing on systems without a peek: there a client's leave is noticed by the next write.
type watcher struct{}

func newWatcher() (*watcher, error)  { return &watcher{}, nil }
func (w *watcher) add(c *conn) error { return nil }
func (w *watcher) remove(c *conn)    {}
func (w *watcher) close()            {}
