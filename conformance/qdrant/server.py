"""A server with Qdrant's service definitions and Qdrant's own engine (qdrant-edge): what stores, filters, searches and changes points is Qdrant, and
only the layer of collections and messages is ours. No package of the registries carries the server itself.

server.py DIRECTORY keeps collections below the directory, listens on a free loopback port, and prints it. It ends with its input."""
import concurrent.futures
import pathlib
import sys
import threading

import grpc
import qdrant_client.grpc as api
import qdrant_edge as edge


def scalar(value):
    kind = value.WhichOneof("kind")
    if kind == "list_value":
        return [scalar(one) for one in value.list_value.values]
    return getattr(value, kind)


def value_of(plain):
    if isinstance(plain, list):
        return api.Value(list_value=api.ListValue(values=[value_of(one) for one in plain]))
    return api.Value(string_value=plain)


def condition(one):
    if one.WhichOneof("condition_one_of") == "has_id":
        return edge.HasIdCondition({point.uuid for point in one.has_id.has_id})
    match = one.field.match
    kind = match.WhichOneof("match_value")
    if kind == "keyword":
        return edge.FieldCondition(one.field.key, edge.MatchValue(match.keyword))
    if kind == "keywords":
        return edge.FieldCondition(one.field.key, edge.MatchAny(list(match.keywords.strings)))
    raise ValueError(f"not translated: {one}")


def vectors_of(point):
    if point.vector is None:
        return None
    return api.VectorsOutput(vector=api.VectorOutput(dense=api.DenseVector(data=point.vector)))


def conditions(given):
    if given.should or given.must_not or given.HasField("min_should"):
        raise ValueError(f"not translated: {given}")
    return edge.Filter(must=[condition(one) for one in given.must]) if given.must else None


class Shards:
    """The collections, by name. One call at a time."""

    def __init__(self, root):
        self.root, self.all, self.lock = pathlib.Path(root), {}, threading.Lock()

    def named(self, name, context):
        if name not in self.all:
            context.abort(grpc.StatusCode.NOT_FOUND, f"Not found: Collection `{name}` doesn't exist!")
        return self.all[name]

    def update(self, request, operation, context):
        with self.lock:
            shard = self.named(request.collection_name, context)
            try:
                shard.update(operation)
            except Exception as e:  # the engine's own refusal
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(e))
        return api.PointsOperationResponse(result=api.UpdateResult(status=api.UpdateStatus.Completed))


class Collections(api.CollectionsServicer):
    def __init__(self, shards):
        self.shards = shards

    def CollectionExists(self, request, context):
        return api.CollectionExistsResponse(result=api.CollectionExists(exists=request.collection_name in self.shards.all))

    def List(self, request, context):
        return api.ListCollectionsResponse(collections=[api.CollectionDescription(name=name) for name in self.shards.all])

    def Create(self, request, context):
        params = request.vectors_config.params
        with self.shards.lock:
            name = request.collection_name
            if name in self.shards.all:
                context.abort(grpc.StatusCode.ALREADY_EXISTS, f"Wrong input: Collection `{name}` already exists!")
            assert params.distance == api.Distance.Dot
            self.shards.all[name] = edge.EdgeShard.create(str(self.shards.root / name), edge.EdgeConfig(vectors=edge.EdgeVectorParams(size=params.size, distance=edge.Distance.Dot)))
        return api.CollectionOperationResponse(result=True)


class Points(api.PointsServicer):
    def __init__(self, shards):
        self.shards = shards

    def CreateFieldIndex(self, request, context):
        return self.shards.update(request, edge.UpdateOperation.create_field_index(request.field_name, edge.PayloadSchemaType.Keyword), context)

    def Upsert(self, request, context):
        points = [edge.Point(p.id.uuid, list(p.vectors.vector.dense.data), {name: scalar(v) for name, v in p.payload.items()}) for p in request.points]
        return self.shards.update(request, edge.UpdateOperation.upsert_points(points), context)

    def Delete(self, request, context):
        by = request.points
        if by.WhichOneof("points_selector_one_of") == "filter":
            return self.shards.update(request, edge.UpdateOperation.delete_points_by_filter(conditions(by.filter)), context)
        return self.shards.update(request, edge.UpdateOperation.delete_points([one.uuid for one in by.points.ids]), context)

    def SetPayload(self, request, context):
        by, payload = request.points_selector, {name: scalar(v) for name, v in request.payload.items()}
        if by.WhichOneof("points_selector_one_of") == "filter":
            return self.shards.update(request, edge.UpdateOperation.set_payload_by_filter(conditions(by.filter), payload), context)
        return self.shards.update(request, edge.UpdateOperation.set_payload([one.uuid for one in by.points.ids], payload), context)

    def Scroll(self, request, context):
        with self.shards.lock:
            shard = self.shards.named(request.collection_name, context)
            found, following = shard.scroll(edge.ScrollRequest(offset=request.offset.uuid or None, limit=request.limit, filter=conditions(request.filter),
                                                              with_payload=list(request.with_payload.include.fields), with_vector=request.with_vectors.enable))
        answer = api.ScrollResponse(result=[api.RetrievedPoint(id=api.PointId(uuid=str(p.id)), payload={k: value_of(v) for k, v in (p.payload or {}).items()}, vectors=vectors_of(p)) for p in found])
        if following is not None:
            answer.next_page_offset.uuid = str(following)
        return answer

    def Query(self, request, context):
        with self.shards.lock:
            shard = self.shards.named(request.collection_name, context)
            try:
                found = shard.query(edge.QueryRequest(limit=request.limit, query=edge.Query.Nearest(list(request.query.nearest.dense.data)), filter=conditions(request.filter),
                                                      with_payload=list(request.with_payload.include.fields)))
            except Exception as e:  # the engine's own refusal
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(e))
        return api.QueryResponse(result=[api.ScoredPoint(id=api.PointId(uuid=str(p.id)), score=p.score, payload={k: value_of(v) for k, v in p.payload.items()}) for p in found])


def main():
    shards = Shards(sys.argv[1])
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
    api.add_CollectionsServicer_to_server(Collections(shards), server)
    api.add_PointsServicer_to_server(Points(shards), server)
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    sys.stdin.read()
    server.stop(0)
    for shard in shards.all.values():
        shard.close()


main()
