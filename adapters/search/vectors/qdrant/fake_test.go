package qdrant

import (
	"cmp"
	"context"
	"net"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/qdrant/go-client/qdrant"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"dragoman/internal/testkit"
)

// fake is a server with the service definitions of the official client, for as much of them as we use. It is no Qdrant: no package carries the
// server. It refuses what Qdrant refuses, and searches exactly; TestEngine compares it with Qdrant's engine.
type fake struct {
	qdrant.UnimplementedPointsServer

	t      testing.TB
	key    string // that requests must have; empty: none
	server *grpc.Server
	at     string

	mu          sync.Mutex
	collections map[string]*collection
	lists       int // pages that were listed
}

type collection struct {
	size    uint64
	indexed []string
	points  map[string]*qdrant.PointStruct
}

// collectionsOf separates the two services, whose methods have the same names.
type collectionsOf struct {
	qdrant.UnimplementedCollectionsServer
	f *fake
}

func start(t testing.TB, opts ...grpc.ServerOption) *fake {
	t.Helper()
	f := &fake{t: t, collections: map[string]*collection{}}
	ln := testkit.Listen(t)
	f.at = ln.Addr().String()
	f.serve(ln, opts...)
	t.Cleanup(func() { f.server.Stop() })
	return f
}

// serve answers on a listener until the server is stopped.
func (f *fake) serve(ln net.Listener, opts ...grpc.ServerOption) {
	f.server = grpc.NewServer(append(opts, grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		if got, _ := metadata.FromIncomingContext(ctx); f.key != "" && !slices.Equal(got.Get("api-key"), []string{f.key}) {
			return nil, status.Error(codes.Unauthenticated, "Must provide an API key or an Authorization bearer token")
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		return handle(ctx, req)
	}))...)
	qdrant.RegisterPointsServer(f.server, f)
	qdrant.RegisterCollectionsServer(f.server, &collectionsOf{f: f})
	go func() { _ = f.server.Serve(ln) }()
}

func (f *fake) named(name string) (*collection, error) {
	if c := f.collections[name]; c != nil {
		return c, nil
	}
	return nil, status.Errorf(codes.NotFound, "Not found: Collection `%s` doesn't exist!", name)
}

func (c *collectionsOf) CollectionExists(_ context.Context, r *qdrant.CollectionExistsRequest) (*qdrant.CollectionExistsResponse, error) {
	return &qdrant.CollectionExistsResponse{Result: &qdrant.CollectionExists{Exists: c.f.collections[r.GetCollectionName()] != nil}}, nil
}

func (c *collectionsOf) List(context.Context, *qdrant.ListCollectionsRequest) (*qdrant.ListCollectionsResponse, error) {
	all := &qdrant.ListCollectionsResponse{}
	for name := range c.f.collections {
		all.Collections = append(all.Collections, &qdrant.CollectionDescription{Name: name})
	}
	return all, nil
}

func (c *collectionsOf) Create(_ context.Context, r *qdrant.CreateCollection) (*qdrant.CollectionOperationResponse, error) {
	params := r.GetVectorsConfig().GetParams()
	switch {
	case c.f.collections[r.GetCollectionName()] != nil:
		return nil, status.Errorf(codes.AlreadyExists, "Wrong input: Collection `%s` already exists!", r.GetCollectionName())
	case params.GetSize() < 1 || params.GetSize() > 65536 || params.GetDistance() != qdrant.Distance_Dot:
		return nil, status.Errorf(codes.InvalidArgument, "%v", params)
	case r.GetMetadata()["model"].GetStringValue() == "":
		return nil, status.Error(codes.InvalidArgument, "the collection does not say what it is of")
	}
	c.f.collections[r.GetCollectionName()] = &collection{size: params.GetSize(), points: map[string]*qdrant.PointStruct{}}
	return &qdrant.CollectionOperationResponse{Result: true}, nil
}

// written answers a change, which must be waited for: else the next search does not see it.
func written(wait bool) (*qdrant.PointsOperationResponse, error) {
	if !wait {
		return nil, status.Error(codes.InvalidArgument, "the change is not waited for")
	}
	return &qdrant.PointsOperationResponse{Result: &qdrant.UpdateResult{Status: qdrant.UpdateStatus_Completed}}, nil
}

func (f *fake) CreateFieldIndex(_ context.Context, r *qdrant.CreateFieldIndexCollection) (*qdrant.PointsOperationResponse, error) {
	c, err := f.named(r.GetCollectionName())
	if err != nil {
		return nil, err
	}
	if r.GetFieldType() != qdrant.FieldType_FieldTypeKeyword {
		return nil, status.Errorf(codes.InvalidArgument, "an index of type %v", r.GetFieldType())
	}
	c.indexed = append(c.indexed, r.GetFieldName())
	return written(r.GetWait())
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func (f *fake) Upsert(_ context.Context, r *qdrant.UpsertPoints) (*qdrant.PointsOperationResponse, error) {
	c, err := f.named(r.GetCollectionName())
	if err != nil {
		return nil, err
	}
	if len(r.GetPoints()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "Empty update request")
	}
	for _, p := range r.GetPoints() {
		if !uuid.MatchString(p.GetId().GetUuid()) {
			return nil, status.Errorf(codes.InvalidArgument, "Unable to parse UUID: %s", p.GetId())
		}
		if n := len(dense(p)); uint64(n) != c.size {
			return nil, status.Errorf(codes.InvalidArgument, "Wrong input: Vector dimension error: expected dim: %d, got %d", c.size, n)
		}
	}
	for _, p := range r.GetPoints() {
		c.points[p.GetId().GetUuid()] = p
	}
	return written(r.GetWait())
}

func dense(p *qdrant.PointStruct) []float32 {
	return p.GetVectors().GetVector().GetDense().GetData()
}

// matches reports whether a point passes a filter. Conditions that we do not use fail the test.
func (f *fake) matches(p *qdrant.PointStruct, filter *qdrant.Filter) bool {
	if len(filter.GetShould())+len(filter.GetMustNot()) > 0 || filter.GetMinShould() != nil {
		f.t.Errorf("a filter %v", filter)
	}
	for _, one := range filter.GetMust() {
		if !f.meets(p, one) {
			return false
		}
	}
	return true
}

func (f *fake) meets(p *qdrant.PointStruct, one *qdrant.Condition) bool {
	if ids := one.GetHasId(); ids != nil {
		return slices.ContainsFunc(ids.GetHasId(), func(id *qdrant.PointId) bool { return id.GetUuid() == p.GetId().GetUuid() })
	}
	field := one.GetField()
	var want []string
	switch match := field.GetMatch().GetMatchValue().(type) {
	case *qdrant.Match_Keyword:
		want = []string{match.Keyword}
	case *qdrant.Match_Keywords:
		want = match.Keywords.GetStrings()
	default:
		f.t.Errorf("a condition %v", one)
	}
	has := []*qdrant.Value{p.GetPayload()[field.GetKey()]}
	if list := has[0].GetListValue(); list != nil {
		has = list.GetValues()
	}
	return slices.ContainsFunc(has, func(v *qdrant.Value) bool { return slices.Contains(want, v.GetStringValue()) })
}

// selected returns the points that a change concerns. Those named by their ids must be there, unless they are to be deleted.
func (f *fake) selected(c *collection, by *qdrant.PointsSelector, all bool) (ids []string, err error) {
	if named := by.GetPoints(); named != nil {
		for _, id := range named.GetIds() {
			if c.points[id.GetUuid()] == nil && all {
				return nil, status.Errorf(codes.NotFound, "Not found: No point with id %s found", id.GetUuid())
			}
			ids = append(ids, id.GetUuid())
		}
		return ids, nil
	}
	if len(by.GetFilter().GetMust()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "a change of everything")
	}
	for id, p := range c.points {
		if f.matches(p, by.GetFilter()) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (f *fake) Delete(_ context.Context, r *qdrant.DeletePoints) (*qdrant.PointsOperationResponse, error) {
	c, err := f.named(r.GetCollectionName())
	if err != nil {
		return nil, err
	}
	ids, err := f.selected(c, r.GetPoints(), false)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		delete(c.points, id)
	}
	return written(r.GetWait())
}

func (f *fake) SetPayload(_ context.Context, r *qdrant.SetPayloadPoints) (*qdrant.PointsOperationResponse, error) {
	c, err := f.named(r.GetCollectionName())
	if err != nil {
		return nil, err
	}
	ids, err := f.selected(c, r.GetPointsSelector(), true)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		for name, v := range r.GetPayload() {
			c.points[id].Payload[name] = v
		}
	}
	return written(r.GetWait())
}

func (f *fake) Scroll(_ context.Context, r *qdrant.ScrollPoints) (*qdrant.ScrollResponse, error) {
	c, err := f.named(r.GetCollectionName())
	if err != nil {
		return nil, err
	}
	f.lists++
	limit := int(r.GetLimit())
	if limit < 1 {
		return nil, status.Error(codes.InvalidArgument, "limit")
	}
	var ids []string
	for id := range c.points {
		if id >= r.GetOffset().GetUuid() && f.matches(c.points[id], r.GetFilter()) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	answer := &qdrant.ScrollResponse{}
	if len(ids) > limit {
		answer.NextPageOffset = qdrant.NewIDUUID(ids[limit])
		ids = ids[:limit]
	}
	for _, id := range ids {
		one := &qdrant.RetrievedPoint{Id: qdrant.NewIDUUID(id), Payload: payload(c.points[id], r.GetWithPayload())}
		if r.GetWithVectors().GetEnable() {
			one.Vectors = &qdrant.VectorsOutput{VectorsOptions: &qdrant.VectorsOutput_Vector{Vector: &qdrant.VectorOutput{Vector: &qdrant.VectorOutput_Dense{Dense: &qdrant.DenseVector{Data: dense(c.points[id])}}}}}
		}
		answer.Result = append(answer.Result, one)
	}
	return answer, nil
}

// payload returns what is wanted of a point's.
func payload(p *qdrant.PointStruct, want *qdrant.WithPayloadSelector) map[string]*qdrant.Value {
	some := map[string]*qdrant.Value{}
	for _, name := range want.GetInclude().GetFields() {
		some[name] = p.GetPayload()[name]
	}
	return some
}

func (f *fake) Query(_ context.Context, r *qdrant.QueryPoints) (*qdrant.QueryResponse, error) {
	c, err := f.named(r.GetCollectionName())
	if err != nil {
		return nil, err
	}
	q := r.GetQuery().GetNearest().GetDense().GetData()
	if uint64(len(q)) != c.size || r.GetLimit() < 1 {
		return nil, status.Errorf(codes.InvalidArgument, "Wrong input: Vector dimension error: expected dim: %d, got %d", c.size, len(q))
	}
	answer := &qdrant.QueryResponse{}
	for id, p := range c.points {
		if !f.matches(p, r.GetFilter()) {
			continue
		}
		var score float32
		for i, v := range dense(p) {
			score += v * q[i]
		}
		answer.Result = append(answer.Result, &qdrant.ScoredPoint{Id: qdrant.NewIDUUID(id), Score: score, Payload: payload(p, r.GetWithPayload())})
	}
	slices.SortFunc(answer.Result, func(a, b *qdrant.ScoredPoint) int {
		return cmp.Or(cmp.Compare(b.GetScore(), a.GetScore()), cmp.Compare(a.GetId().GetUuid(), b.GetId().GetUuid()))
	})
	answer.Result = answer.Result[:min(len(answer.Result), int(r.GetLimit()))]
	return answer, nil
}
