package services

import "fmt"

// etcd is a day in the life of an etcd: keys, leases, members, maintenance, elections, locks and users.
var etcd = join(etcdKeys, etcdLeases, etcdMembers, etcdMaintenance, etcdElections, etcdUsers)

func join(all ...[]trial) (out []trial) {
	for _, some := range all {
		out = append(out, some...)
	}
	return out
}

// key returns members of a request that name a key.
func key(name string) string { return fmt.Sprintf(`"key":%q`, b64(name)) }

var etcdKeys = []trial{
	{tool: "KV.Put", args: `{` + key("a") + `,"value":"` + b64("one") + `"}`, want: `{"header":{}}`},
	{tool: "KV.Put", args: `{` + key("b") + `,"value":"` + b64("two") + `","prevKv":true}`},
	{tool: "KV.Put", args: `{` + key("c") + `,"value":"` + b64("x") + `","lease":"4242"}`, status: "NOT_FOUND", message: "etcdserver: requested lease not found"},
	{tool: "KV.Put", args: `{` + key("c") + `,"value":"` + b64("x") + `","ignoreValue":true}`, status: "INVALID_ARGUMENT", message: "etcdserver: value is provided"},
	{tool: "KV.Range", args: `{` + key("a") + `}`, want: `{"kvs":[{` + key("a") + `,"value":"` + b64("one") + `","lease":"0"}],"more":false,"count":"1"}`},
	{tool: "KV.Range", args: `{` + key("a") + `,"rangeEnd":"` + b64("z") + `","sortOrder":"DESCEND","sortTarget":"KEY","serializable":true}`,
		want: `{"kvs":[{` + key("b") + `},{` + key("a") + `}],"count":"2"}`},
	{tool: "KV.Range", args: `{` + key("a") + `,"rangeEnd":"` + b64("z") + `","limit":"1"}`, want: `{"kvs":[{` + key("a") + `}],"more":true,"count":"2"}`},
	{tool: "KV.Range", args: `{` + key("a") + `,"rangeEnd":"` + b64("z") + `","countOnly":true}`, want: `{"kvs":[],"count":"2"}`},
	{tool: "KV.Range", args: `{}`, status: "INVALID_ARGUMENT", message: "etcdserver: key is not provided"},
	{tool: "KV.Range", args: `{` + key("a") + `,"revision":"999999"}`, status: "OUT_OF_RANGE", message: "etcdserver: mvcc: required revision is a future revision"},
	{tool: "KV.Txn", args: `{"compare":[{"result":"EQUAL","target":"VALUE",` + key("a") + `,"value":"` + b64("one") + `"}],"success":[{"requestRange":{` + key("a") + `}}],"failure":[{"requestDeleteRange":{` + key("a") + `}}]}`,
		want: `{"succeeded":true,"responses":[{"responseRange":{"kvs":[{` + key("a") + `}]}}]}`},
	{tool: "KV.Txn", args: `{"compare":[{"result":"GREATER","target":"VERSION",` + key("a") + `,"version":"1000"}],"failure":[{"requestPut":{` + key("t") + `,"value":"` + b64("v") + `"}},{"requestRange":{` + key("t") + `}}]}`,
		want: `{"succeeded":false,"responses":[{"responsePut":{}},{"responseRange":{"count":"1"}}]}`},
	{tool: "KV.Txn", args: `{"success":[{"requestPut":{` + key("t") + `}},{"requestPut":{` + key("t") + `}}]}`, status: "INVALID_ARGUMENT", message: "etcdserver: duplicate key given in txn request"},
	{tool: "KV.DeleteRange", args: `{` + key("t") + `,"prevKv":true}`, once: true, want: `{"deleted":"1","prevKvs":[{` + key("t") + `,"value":"` + b64("v") + `"}]}`, keep: "revision=header/revision"},
	{tool: "KV.DeleteRange", args: `{` + key("t") + `}`, want: `{"deleted":"0","prevKvs":[]}`},
	{tool: "KV.Compact", args: `{"revision":"${revision}","physical":true}`, once: true, want: `{"header":{}}`},
	{tool: "KV.Compact", args: `{"revision":"${revision}"}`, status: "OUT_OF_RANGE", message: "etcdserver: mvcc: required revision has been compacted"},
	{tool: "KV.Range", args: `{` + key("a") + `,"revision":"1"}`, status: "OUT_OF_RANGE", message: "etcdserver: mvcc: required revision has been compacted"},
}

var etcdLeases = []trial{
	{tool: "Lease.LeaseGrant", args: `{"TTL":"600","ID":"9007199254740993"}`, once: true, want: `{"ID":"9007199254740993","TTL":"600","error":""}`},
	{tool: "Lease.LeaseGrant", args: `{"TTL":"600","ID":9007199254740993}`, status: "FAILED_PRECONDITION", message: "etcdserver: lease already exists"},
	{tool: "Lease.LeaseGrant", args: `{"TTL":"9000000001","ID":"8"}`, status: "OUT_OF_RANGE", message: "etcdserver: too large lease TTL"},
	{tool: "KV.Put", args: `{` + key("leased") + `,"lease":"9007199254740993"}`},
	{tool: "Lease.LeaseTimeToLive", args: `{"ID":"9007199254740993","keys":true}`, want: `{"ID":"9007199254740993","grantedTTL":"600","keys":["` + b64("leased") + `"]}`},
	{tool: "Lease.LeaseLeases", args: `{}`},
	{tool: "Lease.LeaseRevoke", args: `{"ID":"9007199254740993"}`, once: true, want: `{"header":{}}`},
	{tool: "Lease.LeaseRevoke", args: `{"ID":"9007199254740993"}`, status: "NOT_FOUND", message: "etcdserver: requested lease not found"},
	{tool: "Lease.LeaseTimeToLive", args: `{"ID":"9007199254740993"}`, want: `{"TTL":"-1"}`},
	{tool: "KV.Range", args: `{` + key("leased") + `}`, want: `{"kvs":[],"count":"0"}`},
}

var etcdMembers = []trial{
	{tool: "Cluster.MemberList", args: `{}`, want: `{"members":[{"name":"default","isLearner":false}]}`, keep: "member=members/ID"},
	{tool: "Cluster.MemberUpdate", args: `{"ID":"${member}","peerURLs":["http://127.0.0.1:1"]}`},
	{tool: "Cluster.MemberUpdate", args: `{"ID":"1","peerURLs":["http://127.0.0.1:1"]}`, status: "NOT_FOUND", message: "etcdserver: member not found"},
	{tool: "Cluster.MemberAdd", args: `{"peerURLs":["no URL"]}`, status: "INVALID_ARGUMENT", message: "etcdserver: given member URLs are invalid"},
	{tool: "Cluster.MemberAdd", args: `{"peerURLs":["http://127.0.0.1:2"],"isLearner":true}`, once: true, want: `{"member":{"isLearner":true,"peerURLs":["http://127.0.0.1:2"]},"members":[{},{}]}`, keep: "learner=member/ID"},
	{tool: "Cluster.MemberPromote", args: `{"ID":"${learner}"}`, status: "FAILED_PRECONDITION", message: "etcdserver: can only promote a learner member which is in sync with leader"},
	{tool: "Cluster.MemberRemove", args: `{"ID":"${learner}"}`, once: true, want: `{"members":[{"ID":"${member}"}]}`},
	{tool: "Cluster.MemberRemove", args: `{"ID":"${learner}"}`, status: "NOT_FOUND"},
}

var etcdMaintenance = []trial{
	{tool: "Maintenance.Status", args: `{}`, want: `{"version":"3.4.23","leader":"${member}","isLearner":false}`},
	{tool: "Maintenance.Alarm", args: `{"action":"ACTIVATE","memberID":"${member}","alarm":"NOSPACE"}`, want: `{"alarms":[{"memberID":"${member}","alarm":"NOSPACE"}]}`},
	{tool: "KV.Put", args: `{` + key("a") + `}`, status: "RESOURCE_EXHAUSTED", message: "etcdserver: mvcc: database space exceeded"},
	{tool: "Maintenance.Alarm", args: `{"action":"DEACTIVATE","memberID":"${member}","alarm":"NOSPACE"}`, once: true, want: `{"alarms":[{"memberID":"${member}"}]}`},
	{tool: "Maintenance.Alarm", args: `{}`, want: `{"alarms":[]}`},
	{tool: "Maintenance.Defragment", args: `{}`, want: `{}`},
	{tool: "Maintenance.Hash", args: `{}`},
	{tool: "Maintenance.HashKV", args: `{"revision":"0"}`},
	{tool: "Maintenance.HashKV", args: `{"revision":"999999"}`, status: "OUT_OF_RANGE", message: "etcdserver: mvcc: required revision is a future revision"},
	{tool: "Maintenance.Snapshot", args: `{}`},
	{tool: "Maintenance.MoveLeader", args: `{"targetID":"1"}`, status: "FAILED_PRECONDITION", message: "etcdserver: bad leader transferee"},
	{tool: "Maintenance.MoveLeader", args: `{"targetID":"${member}"}`, want: `{}`},
	{tool: "Health.Check", args: `{}`, want: `{"status":"SERVING"}`},
}

var etcdElections = []trial{
	{tool: "Lease.LeaseGrant", args: `{"TTL":"600","ID":"7"}`, once: true, want: `{"ID":"7"}`},
	{tool: "Lock.Lock", args: `{"name":"` + b64("door") + `","lease":"7"}`, once: true, want: `{"key":"` + b64("door/7") + `"}`},
	{tool: "Lock.Unlock", args: `{` + key("door/7") + `}`, want: `{"header":{}}`},
	{tool: "Election.Leader", args: `{"name":"` + b64("chair") + `"}`, status: "UNKNOWN", message: "election: no leader"},
	{tool: "Election.Campaign", args: `{"name":"` + b64("chair") + `","lease":"7","value":"` + b64("me") + `"}`, once: true,
		want: `{"leader":{"name":"` + b64("chair") + `",` + key("chair/7") + `,"lease":"7"}}`, keep: "elected=leader/rev"},
	{tool: "Election.Proclaim", args: `{"leader":{"name":"` + b64("chair") + `",` + key("chair/7") + `,"rev":"${elected}","lease":"7"},"value":"` + b64("still me") + `"}`, want: `{"header":{}}`},
	{tool: "Election.Leader", args: `{"name":"` + b64("chair") + `"}`, want: `{"kv":{` + key("chair/7") + `,"value":"` + b64("still me") + `","lease":"7"}}`},
	{tool: "Election.Resign", args: `{"leader":{"name":"` + b64("chair") + `",` + key("chair/7") + `,"rev":"${elected}","lease":"7"}}`, want: `{"header":{}}`},
	{tool: "Election.Leader", args: `{"name":"` + b64("chair") + `"}`, status: "UNKNOWN", message: "election: no leader"},
}

var etcdUsers = []trial{
	{tool: "Auth.UserAdd", args: `{"name":"root","password":"secret"}`, once: true, want: `{"header":{}}`},
	{tool: "Auth.UserAdd", args: `{"name":"root","password":"secret"}`, status: "FAILED_PRECONDITION", message: "etcdserver: user name already exists"},
	{tool: "Auth.UserAdd", args: `{"name":"ada","options":{"noPassword":true}}`, once: true, want: `{"header":{}}`},
	{tool: "Auth.UserChangePassword", args: `{"name":"root","password":"better"}`, want: `{"header":{}}`},
	{tool: "Auth.UserList", args: `{}`, want: `{"users":["ada","root"]}`},
	{tool: "Auth.RoleAdd", args: `{"name":"root"}`, once: true, want: `{"header":{}}`},
	{tool: "Auth.RoleAdd", args: `{"name":"reader"}`, once: true, want: `{"header":{}}`},
	{tool: "Auth.RoleAdd", args: `{"name":"reader"}`, status: "FAILED_PRECONDITION", message: "etcdserver: role name already exists"},
	{tool: "Auth.RoleGrantPermission", args: `{"name":"reader","perm":{"permType":"READ",` + key("a") + `,"rangeEnd":"` + b64("b") + `"}}`, want: `{"header":{}}`},
	{tool: "Auth.RoleGet", args: `{"role":"reader"}`, want: `{"perm":[{"permType":"READ",` + key("a") + `,"rangeEnd":"` + b64("b") + `"}]}`},
	{tool: "Auth.RoleGet", args: `{"role":"none"}`, status: "FAILED_PRECONDITION", message: "etcdserver: role name not found"},
	{tool: "Auth.RoleList", args: `{}`, want: `{"roles":["reader","root"]}`},
	{tool: "Auth.UserGrantRole", args: `{"user":"root","role":"root"}`, want: `{"header":{}}`},
	{tool: "Auth.UserGrantRole", args: `{"user":"ada","role":"reader"}`, want: `{"header":{}}`},
	{tool: "Auth.UserGet", args: `{"name":"ada"}`, want: `{"roles":["reader"]}`},
	{tool: "Auth.Authenticate", args: `{"name":"root","password":"better"}`, status: "FAILED_PRECONDITION", message: "etcdserver: authentication is not enabled"},
	{tool: "Auth.AuthEnable", args: `{}`, once: true, want: `{"header":{}}`},
	{tool: "Auth.Authenticate", args: `{"name":"root","password":"wrong"}`, status: "INVALID_ARGUMENT", message: "etcdserver: authentication failed, invalid user ID or password"},
	{tool: "Auth.Authenticate", args: `{"name":"root","password":"better"}`, keep: "token of root=token"},
	{tool: "KV.Range", args: `{` + key("a") + `}`, status: "INVALID_ARGUMENT", message: "etcdserver: user name is empty"},
	{tool: "KV.Range", args: `{` + key("a") + `}`, as: "root", want: `{"count":"1"}`},
	{tool: "KV.Range", args: `{` + key("a") + `}`, as: "nobody", status: "UNAUTHENTICATED", message: "etcdserver: invalid auth token"},
	{tool: "Auth.UserRevokeRole", args: `{"name":"ada","role":"reader"}`, as: "root", once: true, want: `{"header":{}}`},
	{tool: "Auth.RoleRevokePermission", args: `{"role":"reader",` + key("a") + `,"rangeEnd":"` + b64("b") + `"}`, as: "root", once: true, want: `{"header":{}}`},
	{tool: "Auth.UserDelete", args: `{"name":"ada"}`, as: "root", once: true, want: `{"header":{}}`},
	{tool: "Auth.RoleDelete", args: `{"role":"reader"}`, as: "root", once: true, want: `{"header":{}}`},
	{tool: "Auth.RoleDelete", args: `{"role":"reader"}`, as: "root", status: "FAILED_PRECONDITION", message: "etcdserver: role name not found"},
	{tool: "Auth.AuthDisable", args: `{}`, as: "root", once: true, want: `{"header":{}}`},
}
