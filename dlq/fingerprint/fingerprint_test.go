package fingerprint_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq/fingerprint"
)

const wrapper = "org.springframework.kafka.listener.ListenerExecutionFailedException"

func TestAnExplicitFingerprintWins(t *testing.T) {
	t.Parallel()
	a := fingerprint.Of(fingerprint.Failure{Explicit: " late orders\x00", ConsumerGroup: "orders", Message: "a", StackTrace: stacks()[0]})
	b := fingerprint.Of(fingerprint.Failure{Explicit: "late orders", ConsumerGroup: "orders", Message: "b"})
	require.Equal(t, a, b)
	require.Equal(t, fingerprint.RuleExplicit, a.Rule)
	require.Equal(t, "late orders", a.Message)
}

func TestTheScopeIsTheConsumerGroupElseTheTopic(t *testing.T) {
	t.Parallel()
	failure := fingerprint.Failure{ConsumerGroup: "orders", DLQTopic: "a.dlq", Message: "x"}
	group := fingerprint.Of(failure)
	require.Equal(t, "orders", group.Scope)

	failure.DLQTopic = "b.dlq"
	require.Equal(t, group.Key, fingerprint.Of(failure).Key, "one group reads many topics")

	failure.ConsumerGroup = ""
	topic := fingerprint.Of(failure)
	require.Equal(t, "b.dlq", topic.Scope)
	require.NotEqual(t, group.Key, topic.Key)
}

func TestEveryComponentIsPartOfTheKey(t *testing.T) {
	t.Parallel()
	keys := map[[16]byte]bool{}
	for _, f := range []fingerprint.Failure{
		{},
		{DLQTopic: "ab"}, {DLQTopic: "a", ErrorClass: "b"}, {ErrorClass: "ab"}, {Message: "ab"}, {Explicit: "ab"},
		{StackTrace: "ab\n\tat shop.A.b(A.java:1)"}, {StackTrace: "ab\n\tat shop.A.c(A.java:1)"},
	} {
		keys[fingerprint.Of(f).Key] = true
	}
	require.Len(t, keys, 8)
}

func TestAKeyOfThisVersionNeverChanges(t *testing.T) {
	t.Parallel()
	fp := fingerprint.Of(fingerprint.Failure{ConsumerGroup: "orders", ErrorClass: "shop.NotFoundException", Message: "order 17 not found"})
	require.Equal(t, 4, fp.Version)
	require.Equal(t, "order not found", fp.Message)
	require.Equal(t, "b3a089434beccb659887cf454dfb3bf5", hexOf(fp.Key), "stored groups would lose their members: raise Version")
}

func TestWithoutAStackTraceTheCauseWinsOverTheWrapper(t *testing.T) {
	t.Parallel()
	fp := fingerprint.Of(fingerprint.Failure{ErrorClass: wrapper, CauseClass: "shop.LateException", Message: "Listener failed; nested exception is shop.LateException: 3 days late"})
	require.Equal(t, fingerprint.RuleMessage, fp.Rule)
	require.Equal(t, "shop.LateException", fp.Class)
	require.Equal(t, "late", fp.Message)

	nested := fingerprint.Of(fingerprint.Failure{ErrorClass: wrapper, Message: "Listener failed; nested exception is shop.LateException: 5 days late"})
	require.Equal(t, fp.Key, nested.Key, "the message names the cause where no header does")
}

func TestTheMessageOfAFailureWithoutOneIsTheFirstLineOfItsStackTrace(t *testing.T) {
	t.Parallel()
	fp := fingerprint.Of(fingerprint.Failure{StackTrace: "\nworker 3 died\nno frames here\n"})
	require.Equal(t, "worker died", fp.Message)
}

func TestOneErrorInAListOfErrorsIsRead(t *testing.T) {
	t.Parallel()
	alone := fingerprint.Of(fingerprint.Failure{Message: "reserve show 17: no seats are left"})
	listed := fingerprint.Of(fingerprint.Failure{Message: "1 error occurred:\n\t* reserve show 17: no seats are left\n\n"})
	require.Equal(t, alone.Key, listed.Key, "%s\n%s", describe(&alone), describe(&listed))
}

func TestAConnectorThatFailsIsNotAConnectionThatFails(t *testing.T) {
	t.Parallel()
	fp := fingerprint.Of(fingerprint.Failure{
		ErrorClass: "org.apache.kafka.connect.errors.ConnectException", Message: "Indexing failed: failed to parse field [price] of type [double]",
	})
	require.Equal(t, "failed to parse (field price, type double)", fp.Message)
}

func TestACauseThatWasCutOffIsTakenFromTheHeaders(t *testing.T) {
	t.Parallel()
	fp := fingerprint.Of(fingerprint.Failure{
		ErrorClass: wrapper, CauseClass: "shop.LateException", Message: "Listener failed",
		StackTrace: wrapper + ": Listener failed\n\tat org.springframework.A.b(A.java:1)\n\tat org.springfr",
	})
	require.Equal(t, "shop.LateException", fp.Class)
	require.Equal(t, fingerprint.RuleFrameAndMessage, fp.Rule)
}

func TestOneFrameFailsForManyCauses(t *testing.T) {
	t.Parallel()
	stack := func(class, message string) fingerprint.Failure {
		return fingerprint.Failure{StackTrace: class + ": " + message + "\n\tat shop.A.b(A.java:1)\n"}
	}
	for _, c := range []struct{ class, message, gist string }{
		{"shop.InvalidException", "order 1: missing field currency", "field currency"},
		{"shop.InvalidException", "lines[3].price: must not be null, lines[4].sku: must not be null", "field price, field sku"},
		{"shop.InvalidException", "total 3.50 is not positive", "total is not positive"},
		{"shop.RemoteException", "GET http://stock.internal/1 returned 404", "status 404"},
		{"shop.RemoteException", "GET http://stock.internal/1 timed out", "unavailable"},
		{"shop.InvalidException", "Validation failed: \n -- Quantity: 17 is too large. Severity: Error", "field Quantity"},
		{"shop.RemoteException", "declined: CARD_EXPIRED", "code CARD_EXPIRED"},
		{"java.lang.IllegalStateException", "shipment 17 of Anna has no lines", "shipment of has no lines"},
		{"java.lang.NullPointerException", `Cannot invoke "shop.C.d()" because "<local4>.c" is null`, ""},
		{"shop.GatewayException", "rejected by gate-a: command_status=0x58 (ESME_RTHROTTLED) seq=17", "code ESME_RTHROTTLED"},
		{"java.sql.SQLException", `Batch entry 0 INSERT INTO "invoices"("id") VALUES(7) was aborted: value too long`, "table invoices"},
		{"org.postgresql.util.PSQLException", `ERROR: duplicate key value violates unique constraint "orders_pkey"` + "\n  Detail: Key (id)=(17) already exists.", "constraint orders_pkey"},
		{"pymysql.err.IntegrityError", `(1062, "Duplicate entry 'ada' for key 'customers.email'")`, "field customers.email"},
		{"java.sql.SQLException", "ORA-00001: unique constraint (SHOP.UK_EMAIL) violated", "constraint SHOP.UK_EMAIL"},
	} {
		fp := fingerprint.Of(stack(c.class, c.message))
		require.Equal(t, fingerprint.RuleFrame, fp.Rule)
		require.Equal(t, c.gist, fp.Message, c.message)
	}
}

// Each list has failures of one kind, in the words and classes of several libraries.
func TestTheWordsOfALibraryDoNotMatter(t *testing.T) {
	t.Parallel()
	for name, failures := range map[string][]string{
		"malformed data": {
			"com.fasterxml.jackson.core.JsonParseException: Unexpected character ('}' (code 125)): was expecting a name\n\tat shop.A.b(A.java:1)\n",
			"com.fasterxml.jackson.core.io.JsonEOFException: Unexpected end-of-input: expected close marker for Object\n\tat shop.A.b(A.java:1)\n",
		},
		"a database that is away, in all frames": {
			"org.postgresql.util.PSQLException: The connection attempt failed.\n\tat shop.A.b(A.java:1)\n",
			"java.sql.SQLTransientConnectionException: pool-1 - Connection is not available\n\tat shop.C.d(C.java:1)\n",
			"java.net.ConnectException: connect to 10.1.2.3:5432: Connection refused\n\tat shop.E.f(E.java:1)\n",
		},
		"a service with a port of its own, with and without own frames": {
			"Error: connect ECONNREFUSED 10.1.2.3:6379\n    at TCPConnectWrap.afterConnect (node:net:1607:16)\n",
			"Error: connect ECONNREFUSED ::1:6379\n    at Cart.load (/srv/cart.js:1:2)\n",
		},
		"a database that is away, as the exceptions around a socket's say": {
			"org.springframework.jdbc.CannotGetJdbcConnectionException: no connection\n\tat shop.A.b(A.java:1)\nCaused by: java.net.ConnectException: Connection refused\n\t... 1 more\n",
			"org.postgresql.util.PSQLException: Connection to 10.1.2.3:5432 refused.\n\tat shop.C.d(C.java:1)\nCaused by: java.net.ConnectException: Connection refused\n\t... 1 more\n",
		},
		"a service that is away, seen through a proxy, a refused connection and a timeout": {
			"AxiosError: timeout of 5000ms exceeded\n    at Seats.hold (/srv/src/seats.js:1:2)\n",
			"AxiosError: Request failed with status code 503\n    at Seats.hold (/srv/src/seats.js:1:2)\n",
			"AxiosError: connect ECONNREFUSED 10.1.2.3:8443\n    at Seats.hold (/srv/src/seats.js:1:2)\n",
		},
		"a value whose place looks like a status": {
			"System.Text.Json.JsonException: not a number. Path: $.size | LineNumber: 0 | BytePositionInLine: 478.\n   at Shop.Codec.Decode(Byte[] data)\n",
			"System.Text.Json.JsonException: not a number. Path: $.size | LineNumber: 0 | BytePositionInLine: 12.\n   at Shop.Codec.Decode(Byte[] data)\n",
		},
		"a property that is missing, as two versions of .NET say": {
			"System.Text.Json.JsonException: JSON deserialization for type 'Shop.Order' was missing required properties, including the following: sku\n   at Shop.Codec.Decode(Byte[] data)\n",
			"System.Text.Json.JsonException: JSON deserialization for type 'Shop.Order' was missing required properties including: 'sku'.\n   at Shop.Codec.Decode(Byte[] data)\n",
		},
		"a cause that node-postgres prints in lower case": {
			"PostingError: cannot post 17\n    at post (/srv/src/a.js:1:2) {\n  [cause]: error: value too long for type character varying(8)\n      at async Entries.add (/srv/src/b.js:1:2)\n}",
			"Error: value too long for type character varying(8)\n    at async Entries.add (/srv/src/b.js:1:2)\n",
		},
		"a bundle of the next release": {
			"Error: no seats\n    at hold (/srv/dist/worker-QK3F7ZUA.js:3:2)\n",
			"Error: no seats\n    at hold (/srv/dist/worker-B5TJXW2M.js:4:2)\n",
		},
		"a recursion, wherever it overflows": {
			"java.lang.StackOverflowError\n\tat shop.Tree.path(A.java:1)\n\tat shop.Tree.parent(A.java:2)\n\tat shop.Tree.path(A.java:1)\n",
			"java.lang.StackOverflowError\n\tat shop.Tree.parent(A.java:2)\n\tat shop.Tree.path(A.java:1)\n\tat shop.Tree.parent(A.java:2)\n",
		},
		"a service that answers 503 to all methods of a client": {
			"feign.FeignException$ServiceUnavailable: [503 Service Unavailable] during [POST] to [http://stock.internal/1]\n\tat shop.Stock.reserve(A.java:1)\n",
			"feign.FeignException$ServiceUnavailable: [503 Service Unavailable] during [DELETE] to [http://stock.internal/1]\n\tat shop.Stock.release(A.java:1)\n",
		},
		"a store that refuses all commands": {
			"io.lettuce.core.RedisCommandExecutionException: OOM command not allowed\n\tat shop.Points.add(A.java:1)\n",
			"io.lettuce.core.RedisCommandExecutionException: OOM command not allowed\n\tat shop.Points.remove(A.java:1)\n",
		},
		"a field that a decoder misses, with and without the path": {
			"kotlinx.serialization.MissingFieldException: Field 'iban' is required, but it was missing\n\tat shop.Payout.<init>(A.kt:1)\n\tat shop.Payout$$serializer.deserialize(A.kt:1)\n\tat shop.Codec.decode(A.kt:1)\n",
			"kotlinx.serialization.MissingFieldException: Field 'iban' is required, but it was missing at path: $.payouts[0]\n\tat shop.Codec.decode(A.kt:1)\n",
		},
		"a value that a decoder cannot convert, with and without the cause": {
			"System.Text.Json.JsonException: The JSON value could not be converted. Path: $.day | LineNumber: 0.\n ---> System.FormatException: not a date.\n   at System.Text.Json.A.B()\n   --- End of inner exception stack trace ---\n   at Shop.Codec.Decode(Byte[] data)\n",
			"System.Text.Json.JsonException: The JSON value could not be converted. Path: $.day | LineNumber: 3.\n   at Shop.Codec.Decode(Byte[] data)\n",
		},
		"a record that is missing, whatever its number": {
			"shop.NotFound: no Supplier with 'id'=77\n\tat shop.A.b(A.java:1)\n",
			"shop.NotFound: no Supplier with 'id'=501\n\tat shop.A.b(A.java:1)\n",
		},
		"a key that a dictionary does not have": {
			"System.Collections.Generic.KeyNotFoundException: The given key 'PLUS' was not present in the dictionary.\n   at Shop.Plans.PriceOf(String plan)\n",
			"System.Collections.Generic.KeyNotFoundException: The given key 'team_trial' was not present in the dictionary.\n   at Shop.Plans.PriceOf(String plan)\n",
		},
		"a class in another package": {
			"javax.validation.ValidationException: field size\n\tat shop.A.b(A.java:1)\n",
			"jakarta.validation.ValidationException: field size\n\tat shop.A.b(A.java:1)\n",
		},
		"the space that Go's protobuf library varies": {
			"proto: cannot parse invalid wire-format data",
			"proto:\u00a0cannot parse invalid wire-format data",
		},
		"a replica of a service that is away": {
			"Post \"http://stock-1.shop.svc:80/v1\": context deadline exceeded",
			"Post \"http://stock-2.shop.svc:80/v1\": context deadline exceeded",
		},
	} {
		first := fingerprint.Of(fingerprint.Failure{StackTrace: failures[0]})
		for _, stack := range failures[1:] {
			other := fingerprint.Of(fingerprint.Failure{StackTrace: stack})
			require.Equal(t, first.Key, other.Key, "%s:\n%s\n%s", name, describe(&first), describe(&other))
		}
	}
}

func TestTheHostIsTakenFromTheExceptionsAroundATimeout(t *testing.T) {
	t.Parallel()
	of := func(host string) fingerprint.Fingerprint {
		return fingerprint.Of(fingerprint.Failure{StackTrace: `org.springframework.web.client.ResourceAccessException: I/O error on GET request for "http://` + host + `:80/17": Read timed out
	at shop.http.Remote.call(Remote.java:1)
Caused by: java.net.SocketTimeoutException: Read timed out
	at java.base/java.net.Socket.read(Socket.java:1)
	... 1 more
`})
	}
	require.Equal(t, "unavailable pricing.internal", of("pricing.internal").Message)
	require.Equal(t, of("10.1.2.3").Key, of("10.9.8.7").Key, "addresses change")
}

// The labelled failures have no two causes that differ by such a code alone.
func TestCodesAndMethodsTellCausesApartAndNamesOfUsersDoNot(t *testing.T) {
	t.Parallel()
	message := func(text string) string { return fingerprint.Of(fingerprint.Failure{Message: text}).Message }
	for _, causes := range [][2]string{
		{"could not serialize access (SQLSTATE 40001)", "could not serialize access (SQLSTATE 40P01)"},
		{"payment declined with error code 51", "payment declined with error code 54"},
		{"mysql: error code 1205 lock wait", "mysql: error code 1213 lock wait"},
		{"could not invoke 'applyDiscount' now", "could not invoke 'applyTax' now"},
		{"UNAVAILABLE: try again", "ABORTED: try again"},
	} {
		require.NotEqual(t, message(causes[0]), message(causes[1]))
	}
	require.Equal(t, message("user=bob could not log in"), message("user=alice could not log in"))
}

func TestADetailOfTheMessageDoesNotMatter(t *testing.T) {
	t.Parallel()
	for _, messages := range [][]string{
		{"Unknown magic byte!", "org.apache.SerializationException: Unknown magic byte!", "[event 17] Unknown magic byte! (partition 3, offset 9)"},
		{`panic: runtime error: index out of range [2] with length 2`, "recovered: runtime error: index out of range [1] with length 0"},
		{"load tariff: Get \"http://tariff.shop/1\": context deadline exceeded", "attempt 2/3: handle Parcel 17: load tariff: Get \"http://tariff.shop/2\": net/http: request canceled (Client.Timeout exceeded)"},
		{"read cache: dial tcp 10.1.2.3:6379: connect: connection refused", "read cache: dial tcp: lookup redis.shop.svc on 10.0.0.1:53: no such host"},
		{`rejected: {"type":"card_error","code":"expired_card","id":17}`, `rejected: {"code":"expired_card","id":18,"type":"card_error"}`},
		{"invalid: size: must not be null; price: must not be null", "invalid: price: must not be null; size: must not be null"},
		{`duplicate key value violates unique constraint "orders_pkey"` + "\nDETAIL:  Key (id)=(17) already exists.", "FEHLER: doppelter Schlüsselwert verletzt Unique-Constraint »orders_pkey«", "la valeur d'une clé dupliquée rompt la contrainte unique « orders_pkey »"},
		{"ORA-00001: unique constraint (SHOP.UK_EMAIL) violated", "ORA-00001: unique constraint (SHOP.UK_EMAIL) violated on table SHOP.CUSTOMERS columns (EMAIL)"},
		{`ORA-01400: cannot insert NULL into ("SHOP"."ORDERS"."TOTAL")`, `ORA-01400: Einfügen von NULL in ("SHOP"."ORDERS"."TOTAL") nicht möglich`},
		{"handle order 17: charge: dial tcp 10.0.0.7:443: connect: connection refused", "charge: dial tcp [::1]:443: connectex: Es konnte keine Verbindung hergestellt werden"},
		{"reserve stock for order 17: sku A-1 not in warehouse", "attempt 3/3: reserve stock for order 99: sku X-9 not in warehouse (last retry)"},
		{"call to stock failed with HTTP 503 Service Unavailable", "call to stock failed with HTTP 503 Service Unavailable: upstream connect error"},
		{"payload too short: 12 bytes; device gw-17", "payload too short (9 bytes, device gw-3)", "payload too short for device gw-1"},
		{"550 5.1.1 <a@example.org>: Recipient rejected: User unknown in virtual mailbox table", "550 5.1.1 <b@example.org>: Recipient rejected: User unknown in local recipient table"},
		{"no enum constant shop.Provider.WOBBLEPAY", "no enum constant shop.Provider.FOO_PAY"},
		{"index doc 17: cluster_block_exception: index catalog-2026.03 is read-only", "index doc 18: cluster_block_exception: index catalog-2026.01 is read-only"},
		{"missing required field unit", "missing required field unit in reading 17"},
		{"unexpected end of JSON input", "decode order 17: invalid character '<' looking for beginning of value"},
		{"Order[id=17, type=EXPRESS] has no lines", "Order[id=18, type=SLOW] has no lines"},
	} {
		first := fingerprint.Of(fingerprint.Failure{ErrorClass: "shop.A", Message: messages[0]})
		for _, m := range messages[1:] {
			other := fingerprint.Of(fingerprint.Failure{Message: m})
			require.Equal(t, first.Key, other.Key, "%s\n%s", describe(&first), describe(&other))
		}
	}
}

func TestAMessageKeepsWhatTellsCausesApart(t *testing.T) {
	t.Parallel()
	keys := map[[16]byte]string{}
	for _, m := range []string{
		"customer 17: not found", "order 17: not found", "load price: Get \"http://a.shop/1\": EOF", "load price: Get \"http://b.shop/1\": context deadline exceeded",
		"load stock: Get \"http://b.shop/1\": context deadline exceeded", "stock replied 503", "stock replied 404", "404 NOT_FOUND from GET http://a.shop/1",
		`ORA-01400: cannot insert NULL into ("SHOP"."ORDERS"."TOTAL")`, `ORA-01400: cannot insert NULL into ("SHOP"."ORDERS"."DAY")`,
		`ORA-12899: value too large for column "SHOP"."ORDERS"."DAY" (actual: 3, maximum: 2)`,
		"{'currency': ['Missing data']}", "{'amount': ['Missing data']}", "<17>", "shipment 17 has no lines", "shipment 17 has no address",
		"charge: Post \"http://payments.internal/1\": EOF: connection refused", "charge: Post \"http://mail.internal/1\": EOF: connection refused", `rejected: {"code":"expired_card"}`, `rejected: {"code":"stolen_card"}`, "invalid: $.customer.zip: is missing", "invalid: $.customer.name: is missing",
	} {
		fp := fingerprint.Of(fingerprint.Failure{Message: m})
		require.NotContains(t, keys, fp.Key, "%s: %s", m, describe(&fp))
		keys[fp.Key] = m
	}
}

func TestTheClassCountsWhereTheMessageSaysLittle(t *testing.T) {
	t.Parallel()
	of := func(class, cause, message string) [16]byte {
		fp := fingerprint.Of(fingerprint.Failure{ErrorClass: class, CauseClass: cause, Message: message})
		return fp.Key
	}
	require.NotEqual(t, of("shop.A", "", "O-17"), of("shop.B", "", "O-18"))
	require.Equal(t, of("shop.A", "", "O-17"), of("A", "", "O-18"))
	require.NotEqual(t, of(wrapper, "shop.A", "Listener method threw exception"), of(wrapper, "shop.B", "Listener method threw exception"))
	require.Equal(t, of("*url.Error", "", "closed"), of("", "", "closed"), "Go wraps errors in types")
}

func TestTheStackTraceOfARemoteServiceInAMessageIsNotTheCause(t *testing.T) {
	t.Parallel()
	fp := fingerprint.Of(fingerprint.Failure{Message: "Listener failed", StackTrace: wrapper + `: Listener failed
	at org.springframework.A.b(A.java:1)
Caused by: io.grpc.StatusRuntimeException: INTERNAL: java.lang.NullPointerException: tier
	at remote.Tiers.factor(Tiers.java:43)
Caused by: remote.TierNotLoaded: empty
	... 2 more
	at io.grpc.stub.ClientCalls.toStatus(ClientCalls.java:1)
	at shop.Accounts.award(Accounts.java:1)
	... 9 more
`})
	require.Equal(t, "io.grpc.StatusRuntimeException", fp.Class)
	require.Equal(t, "shop.Accounts.award", fp.Frame)
	require.Equal(t, "code INTERNAL", fp.Message)
}

func TestAnOutageOfTheDatabaseIsOneCauseInAllFrames(t *testing.T) {
	t.Parallel()
	of := func(method string) [16]byte {
		fp := fingerprint.Of(fingerprint.Failure{StackTrace: "java.sql.SQLTransientConnectionException: Pool-1 - Connection is not available\n" +
			"\tat com.zaxxer.hikari.A.b(A.java:1)\n\tat shop.Orders." + method + "(Orders.java:1)\n"})
		return fp.Key
	}
	require.Equal(t, of("find"), of("save"))
}

func TestAMessageThatLooksLikeAStackTraceIsNotReadAsOne(t *testing.T) {
	t.Parallel()
	of := func(n string) fingerprint.Fingerprint {
		message := "script failed\n\tat shop.Script" + n + ".run(Script.java:1)\nCaused by: shop.Odd" + n + ": x"
		return fingerprint.Of(fingerprint.Failure{
			Message:    "Listener failed; nested exception is shop.ScriptException: " + message,
			StackTrace: wrapper + ": Listener failed; nested exception is shop.ScriptException: " + message + "\n\tat org.springframework.A.b(A.java:1)\nCaused by: shop.ScriptException: " + message + "\n\tat shop.Runner.run(Runner.java:1)\n",
		})
	}
	require.Equal(t, "shop.ScriptException", of("One").Class)
	require.Equal(t, "shop.Runner.run", of("One").Frame)
	require.Equal(t, of("One").Key, of("Two").Key)
}

func TestAMessageThatIsTheStackTraceIsReadAsOne(t *testing.T) {
	t.Parallel()
	stack := "shop.E: x\n\tat shop.A.b(A.java:1)\n"
	require.Equal(t, "shop.A.b", fingerprint.Of(fingerprint.Failure{Message: stack, StackTrace: stack}).Frame)
}

func TestBothEndsOfALongStackTraceAreRead(t *testing.T) {
	t.Parallel()
	filler := strings.Repeat("\tat org.springframework.A.b(A.java:1)\n", 1<<16)
	last := fingerprint.Of(fingerprint.Failure{StackTrace: "shop.E: x\n" + filler + "Caused by: shop.F: y\n\tat shop.C.d(C.java:1)\n"})
	require.Equal(t, "shop.F", last.Class)
	require.Equal(t, "shop.C.d", last.Frame)

	first := fingerprint.Of(fingerprint.Failure{StackTrace: "shop.E: x\n\tat shop.A.b(A.java:1)\n" + filler})
	require.Equal(t, "shop.A.b", first.Frame)
}
