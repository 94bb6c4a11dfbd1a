// Package qdrant keeps the vectors of tools in a Qdrant, by its official client, which several Dragomans may share. Qdrant searches: approximately
// where it has an index, else exactly.
package qdrant

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/qdrant/go-client/qdrant"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"dragoman/adapters/search/vectors"
	"dragoman/proxy/wire"
)

// Names in Qdrant: of our collections, and of what a point has besides its vector.
const (
	collections     = "dragoman-tools-"
	serverField     = "server"
	toolField       = "tool"
	sumField        = "sum"
	categoriesField = "categories"
)

// Bounds of requests.
const (
	page      = 1000    // points that are listed at a time
	sendBytes = 2 << 20 // of vectors in one request; gRPC takes 4 MB unless it is told otherwise
	writeTime = 30 * time.Second
	keepAlive = 60 // seconds between two signs of life of an unused connection
)

// Options configure a Store.
type Options struct {
	URL    string // of the gRPC interface: http://HOST:6334 or https://HOST:6334, the port being the default
	Key    string // API key; never part of an error. It is sent over https, or to this machine, only
	CAFile string // PEM file of the roots to trust instead of the system's
}

// Store is a [vectors.Store] in a Qdrant. Each space has a collection of its own, whose name begins with dragoman-tools-. Collections of former
// models stay, since another Dragoman may use them. A Put of more than 2 MB is several requests, of which the first may succeed alone. The names
// of servers and tools that are not in UTF-8 are left out.
type Store struct {
	space      vectors.Space
	client     *qdrant.Client
	at         string // the host, for errors
	collection string

	mu    sync.Mutex
	there bool // so is the collection
}

// Open returns the Store of a space, which connects when it is used first. The caller must close it.
func Open(opt Options, space vectors.Space) (*Store, error) {
	if err := space.Check(); err != nil {
		return nil, err
	}
	u, err := url.Parse(opt.URL)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" {
		return nil, errors.New("vectors: the URL of Qdrant is not valid; fix: write http://HOST:6334 or https://HOST:6334, and the key apart") // it may hold a secret
	}
	cfg := &qdrant.Config{Host: u.Hostname(), Port: 6334, UseTLS: u.Scheme == "https", PoolSize: 1, KeepAliveTime: keepAlive, SkipCompatibilityCheck: true}
	if u.Port() != "" {
		if cfg.Port, err = strconv.Atoi(u.Port()); err != nil {
			return nil, fmt.Errorf("vectors: the port of Qdrant is not valid: %w", err)
		}
	}
	if opt.Key != "" {
		if !cfg.UseTLS && !slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, cfg.Host) {
			return nil, errors.New("vectors: the key of Qdrant would be sent unprotected; fix: write https in its URL")
		}
		cfg.GrpcOptions = append(cfg.GrpcOptions, grpc.WithChainUnaryInterceptor(withKey(opt.Key))) // the client's own logs a warning
	}
	if cfg.UseTLS {
		if cfg.TLSConfig, err = trust(opt.CAFile); err != nil {
			return nil, err
		}
	}
	if strings.Contains(cfg.Host, ":") {
		cfg.Host = "[" + cfg.Host + "]"
	}
	client, err := qdrant.NewClient(cfg)
	if err != nil {
		return nil, fmt.Errorf("vectors: %w", err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", space.Dimension, space.Model))
	return &Store{space: space, client: client, at: u.Host, collection: collections + hex.EncodeToString(sum[:8])}, nil
}

func withKey(key string) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		return invoke(metadata.AppendToOutgoingContext(ctx, "api-key", key), method, req, reply, cc, opts...)
	}
}

// trust returns the TLS settings for the roots of a file; empty: the system's.
func trust(file string) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if file == "" {
		return cfg, nil
	}
	raw, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return nil, fmt.Errorf("vectors: %w", err)
	}
	if cfg.RootCAs = x509.NewCertPool(); !cfg.RootCAs.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("vectors: %s has no certificate in PEM", file)
	}
	return cfg, nil
}

// Close closes the connection.
func (s *Store) Close() error { return s.client.Close() }

// Ready makes the collection if it is missing. Every other method does so, too: an error here says early what they will say.
func (s *Store) Ready(ctx context.Context) error {
	s.mu.Lock()
	there := s.there
	s.mu.Unlock()
	if there {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	if err := s.create(ctx); err != nil {
		return s.failed(ctx, err)
	}
	s.mu.Lock()
	s.there = true
	s.mu.Unlock()
	return nil
}

// create makes the collection and the indexes of its filters, as far as they are missing. Several Dragomans may do so at once.
func (s *Store) create(ctx context.Context) error {
	there, err := s.client.CollectionExists(ctx, s.collection)
	if err != nil {
		return err
	}
	if !there {
		err := s.client.CreateCollection(ctx, &qdrant.CreateCollection{CollectionName: s.collection,
			VectorsConfig: qdrant.NewVectorsConfig(&qdrant.VectorParams{Size: uint64(s.space.Dimension), Distance: qdrant.Distance_Dot}), //nolint:gosec // Check has seen it
			Metadata:      map[string]*qdrant.Value{"model": qdrant.NewValueString(s.space.Model)}})
		if err != nil && status.Code(err) != codes.AlreadyExists {
			return err
		}
	}
	for _, field := range []string{serverField, categoriesField} {
		if _, err := s.client.CreateFieldIndex(ctx, &qdrant.CreateFieldIndexCollection{CollectionName: s.collection, Wait: qdrant.PtrOf(true),
			FieldName: field, FieldType: qdrant.PtrOf(qdrant.FieldType_FieldTypeKeyword)}); err != nil {
			return err
		}
	}
	return nil
}

// failed returns an error as callers see it. If the collection has gone, the next call makes it anew.
func (s *Store) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	why := wire.ShownText(err.Error())
	switch status.Code(err) {
	case codes.NotFound:
		s.mu.Lock()
		s.there = false
		s.mu.Unlock()
	case codes.Unauthenticated, codes.PermissionDenied:
		return fmt.Errorf("vectors: Qdrant at %s refuses: %s; fix: check its key, which must be allowed to write", s.at, why)
	case codes.Unavailable:
		return fmt.Errorf("vectors: Qdrant at %s cannot be reached: %s; fix: check that it runs, and that the URL is that of its gRPC interface, usually port 6334", s.at, why)
	}
	return fmt.Errorf("vectors: Qdrant at %s: %s", s.at, why)
}

// write calls f in the time of a write, once the collection is there.
func (s *Store) write(ctx context.Context, f func(ctx context.Context) error) error {
	if err := s.Ready(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	return s.failed(ctx, f(ctx))
}

// id returns the id of a tool's point: a UUID made of its names.
func id(server, tool string) *qdrant.PointId {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s%s", len(server), server, tool))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // version 8 (RFC 9562 §5.8)
	h := hex.EncodeToString(sum[:16])
	return qdrant.NewIDUUID(strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-"))
}

// Sums implements vectors.Writer.
func (s *Store) Sums(ctx context.Context) (vectors.Sums, error) {
	if err := s.Ready(ctx); err != nil {
		return nil, err
	}
	all := vectors.Sums{}
	err := s.scroll(ctx, &qdrant.ScrollPoints{Limit: qdrant.PtrOf(uint32(page)),
		WithPayload: qdrant.NewWithPayloadInclude(serverField, toolField, sumField, categoriesField), WithVectors: qdrant.NewWithVectors(false)}, func(p *qdrant.RetrievedPoint) {
		sum, err := hex.DecodeString(p.GetPayload()[sumField].GetStringValue())
		if err != nil || len(sum) != 32 {
			return // another's: it is made anew
		}
		stored := vectors.Stored{Sum: [32]byte(sum)}
		for _, one := range p.GetPayload()[categoriesField].GetListValue().GetValues() {
			stored.Categories = append(stored.Categories, one.GetStringValue())
		}
		all.Add(p.GetPayload()[serverField].GetStringValue(), p.GetPayload()[toolField].GetStringValue(), stored)
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// scroll calls see with the points that a request is about, page after page.
func (s *Store) scroll(ctx context.Context, request *qdrant.ScrollPoints, see func(*qdrant.RetrievedPoint)) error {
	request.CollectionName = s.collection
	for {
		points, next, err := s.client.ScrollAndOffset(ctx, request)
		if err != nil {
			return s.failed(ctx, err)
		}
		for _, p := range points {
			see(p)
		}
		if request.Offset = next; next == nil {
			return nil
		}
	}
}

// Put implements vectors.Writer.
func (s *Store) Put(ctx context.Context, points []vectors.Point) error {
	if err := s.space.CheckPoints(points); err != nil {
		return err
	}
	all := make([]*qdrant.PointStruct, 0, len(points))
	places := map[string]int{} // of the points of this Put by id: the last of a tool counts
	for i := range points {
		p := &points[i]
		if !utf8.ValidString(p.Server) || !utf8.ValidString(p.Tool) {
			continue
		}
		one := &qdrant.PointStruct{Id: id(p.Server, p.Tool), Vectors: qdrant.NewVectorsDense(slices.Clone(p.Vector)), Payload: map[string]*qdrant.Value{serverField: qdrant.NewValueString(p.Server),
			toolField: qdrant.NewValueString(p.Tool), sumField: qdrant.NewValueString(hex.EncodeToString(p.Sum[:])), categoriesField: list(p.Categories)}}
		at, again := places[one.GetId().GetUuid()]
		if again {
			all[at] = one
			continue
		}
		places[one.GetId().GetUuid()] = len(all)
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil
	}
	return s.write(ctx, func(ctx context.Context) error {
		for some := range slices.Chunk(all, max(1, sendBytes/(4*s.space.Dimension))) {
			if _, err := s.client.Upsert(ctx, &qdrant.UpsertPoints{CollectionName: s.collection, Wait: qdrant.PtrOf(true), Points: some}); err != nil {
				return err
			}
		}
		return nil
	})
}

// list returns texts as a value.
func list(texts []string) *qdrant.Value {
	all := &qdrant.ListValue{}
	for _, text := range texts {
		if utf8.ValidString(text) {
			all.Values = append(all.Values, qdrant.NewValueString(text))
		}
	}
	return qdrant.NewValueFromList(all.Values...)
}

// SetCategories implements vectors.Writer.
func (s *Store) SetCategories(ctx context.Context, server, tool string, categories []string) error {
	return s.write(ctx, func(ctx context.Context) error {
		// A point that is named by its id must be there; a filter may find none.
		_, err := s.client.SetPayload(ctx, &qdrant.SetPayloadPoints{CollectionName: s.collection, Wait: qdrant.PtrOf(true), Payload: map[string]*qdrant.Value{categoriesField: list(categories)},
			PointsSelector: qdrant.NewPointsSelectorFilter(&qdrant.Filter{Must: []*qdrant.Condition{qdrant.NewHasID(id(server, tool))}})})
		return err
	})
}

// RemoveTools implements vectors.Remover.
func (s *Store) RemoveTools(ctx context.Context, server string, tools []string) error {
	if len(tools) == 0 {
		return nil
	}
	ids := make([]*qdrant.PointId, 0, len(tools))
	for _, tool := range tools {
		ids = append(ids, id(server, tool))
	}
	return s.write(ctx, func(ctx context.Context) error {
		_, err := s.client.Delete(ctx, &qdrant.DeletePoints{CollectionName: s.collection, Wait: qdrant.PtrOf(true), Points: qdrant.NewPointsSelectorIDs(ids)})
		return err
	})
}

// RemoveServer implements vectors.Remover. What other spaces have of the server is removed, too.
func (s *Store) RemoveServer(ctx context.Context, server string) error {
	if !utf8.ValidString(server) {
		return nil // it is not stored
	}
	return s.write(ctx, func(ctx context.Context) error {
		names, err := s.client.ListCollections(ctx)
		if err != nil {
			return err
		}
		for _, name := range names {
			if !strings.HasPrefix(name, collections) {
				continue
			}
			_, err := s.client.Delete(ctx, &qdrant.DeletePoints{CollectionName: name, Wait: qdrant.PtrOf(true),
				Points: qdrant.NewPointsSelectorFilter(&qdrant.Filter{Must: []*qdrant.Condition{qdrant.NewMatchKeyword(serverField, server)}})})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Search implements vectors.Searcher.
func (s *Store) Search(ctx context.Context, vector []float32, filter vectors.Filter, k int) ([]vectors.Hit, error) {
	if err := s.space.CheckVector(vector); err != nil {
		return nil, err
	}
	err := s.Ready(ctx)
	if k = min(k, vectors.MaxHits); err != nil || k < 1 || filter.Servers != nil && len(filter.Servers) == 0 {
		return nil, err
	}
	found, err := s.client.Query(ctx, &qdrant.QueryPoints{CollectionName: s.collection, Query: qdrant.NewQueryDense(vector), Filter: conditions(filter),
		Limit: qdrant.PtrOf(uint64(k)), WithPayload: qdrant.NewWithPayloadInclude(serverField, toolField)})
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	hits := make([]vectors.Hit, 0, len(found))
	for _, p := range found {
		hits = append(hits, vectors.Hit{Server: p.GetPayload()[serverField].GetStringValue(), Tool: p.GetPayload()[toolField].GetStringValue(), Score: p.GetScore()})
	}
	slices.SortFunc(hits, vectors.Compare)
	return hits, nil
}

// conditions returns a filter as Qdrant's. It must not name servers if these are none: an empty list of keywords matches nothing in some
// versions only.
func conditions(filter vectors.Filter) *qdrant.Filter {
	var must []*qdrant.Condition
	if filter.Servers != nil {
		must = append(must, qdrant.NewMatchKeywords(serverField, slices.DeleteFunc(slices.Clone(filter.Servers), func(name string) bool { return !utf8.ValidString(name) })...))
	}
	if filter.Category != "" {
		must = append(must, qdrant.NewMatchKeyword(categoriesField, strings.ToValidUTF8(filter.Category, "\uFFFD")))
	}
	return &qdrant.Filter{Must: must}
}

// Mean implements vectors.Searcher. The vectors come in pages of at most 2 MB.
func (s *Store) Mean(ctx context.Context, filter vectors.Filter) ([]float32, error) {
	if err := s.Ready(ctx); err != nil || filter.Servers != nil && len(filter.Servers) == 0 {
		return nil, err
	}
	sum := make([]float64, s.space.Dimension)
	err := s.scroll(ctx, &qdrant.ScrollPoints{Limit: qdrant.PtrOf(uint32(min(page, max(1, sendBytes/(4*s.space.Dimension))))), Filter: conditions(filter),
		WithPayload: qdrant.NewWithPayload(false), WithVectors: qdrant.NewWithVectors(true)}, func(p *qdrant.RetrievedPoint) {
		v := p.GetVectors().GetVector().GetDense().GetData()
		if len(v) == 0 {
			v = p.GetVectors().GetVector().GetData() //nolint:staticcheck // where servers before 1.16 have it
		}
		if len(v) == len(sum) {
			for i, x := range v {
				sum[i] += float64(x)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return vectors.Direction(sum), nil
}

var _ vectors.Store = (*Store)(nil)
