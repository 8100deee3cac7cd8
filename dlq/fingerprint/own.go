package fingerprint

import "strings"

// libraries are the packages and namespaces of languages and well-known libraries, for the
// JVM, .NET, Python and Ruby. Code in these packages, and in packages below them, is not own.
var libraries = set(`
java javax jakarta jdk sun com.sun kotlin kotlinx _COROUTINE scala groovy clojure org.codehaus.groovy akka cats zio
org.springframework org.apache org.hibernate org.jboss org.eclipse org.slf4j ch.qos.logback org.jetbrains
io.netty reactor io.projectreactor io.reactivex rx io.vertx io.micronaut io.quarkus io.smallrye io.helidon io.dropwizard io.ktor
com.fasterxml tools.jackson com.google com.squareup okhttp3 okio retrofit2 feign io.github.resilience4j net.jodah dev.failsafe
io.confluent io.debezium io.strimzi org.postgresql com.mysql org.mariadb oracle com.microsoft org.h2 com.ibm com.zaxxer
com.mongodb org.bson org.mongodb redis.clients io.lettuce org.redisson org.jooq org.mybatis org.flywaydb liquibase com.querydsl
io.grpc io.opentelemetry io.micrometer io.prometheus io.opentracing io.sentry com.datadog datadog com.newrelic co.elastic org.elasticsearch
com.amazonaws software.amazon.awssdk com.azure net.bytebuddy net.sf.cglib javassist org.aspectj org.mockito org.junit junit
org.axonframework io.axoniq org.wildfly io.undertow org.glassfish org.xerial com.github.benmanes org.quartz io.temporal
io.arrow-kt arrow org.koin io.cloudevents io.swagger org.yaml org.json com.jayway net.minidev io.jsonwebtoken
org.thymeleaf freemarker org.jsoup com.rabbitmq javazoom lombok android androidx dalvik
com.datastax com.clickhouse com.couchbase com.hazelcast com.esotericsoftware com.networknt com.netflix com.nimbusds com.thoughtworks com.typesafe
com.lightbend com.sksamuel com.twitter com.lmax com.graphql graphql com.stripe com.twilio com.auth0 com.jcraft com.solacesystems com.sap com.oracle
com.vaadin com.launchdarkly com.github.luben net.snowflake io.fabric8 io.kubernetes io.minio io.nats io.vavr io.circe io.r2dbc io.camunda org.camunda
org.flowable org.drools org.kie org.opensearch org.neo4j org.infinispan org.keycloak org.bouncycastle org.antlr org.joda org.threeten org.http4s
org.http4k org.jdbi org.lz4 org.rocksdb org.everit org.mapstruct org.modelmapper org.ehcache org.codehaus org.msgpack org.influxdb org.zeromq
org.typelevel org.locationtech net.spy net.jpountz net.logstash monix fs2 doobie slick shapeless
System Interop Microsoft Windows Npgsql MySql MySqlConnector Oracle MongoDB StackExchange Confluent MassTransit NServiceBus Rebus
Newtonsoft Polly Serilog NLog Grpc Google Dapper MediatR FluentValidation AutoMapper Autofac Castle Azure Amazon OpenTelemetry
RabbitMQ Refit RestSharp Hangfire Quartz Akka Wolverine Marten Silverback KafkaFlow Elastic Sentry Prometheus
Elasticsearch OpenSearch EntityFramework Flurl ProtoBuf MessagePack CsvHelper ClosedXML YamlDotNet Chr ServiceStack Steeltoe SlimMessageBus EasyNetQ
Paramore Streamiz JasperFx Raven NodaTime Twilio SendGrid Stripe Minio NATS Cassandra Neo4j Couchbase ClickHouse Snowflake IdentityModel Duende
builtins asyncio json decimal socket ssl http urllib urllib3 requests httpx aiohttp sqlalchemy psycopg psycopg2 asyncpg
pymysql MySQLdb sqlite3 pymongo redis pydantic pydantic_core marshmallow jsonschema django flask fastapi starlette celery
kombu confluent_kafka kafka aiokafka faust grpc google boto3 botocore azure avro fastavro numpy pandas concurrent
subprocess zoneinfo datetime xml email multiprocessing elasticsearch tenacity orjson simplejson msgpack
opensearchpy PIL scipy sklearn cryptography jwt yaml lxml paramiko websockets pika nats motor beanie tortoise peewee cassandra clickhouse_connect
clickhouse_driver snowflake stripe twilio openai anyio attr cattrs dateutil pendulum jinja2 dramatiq rq sentry_sdk opentelemetry ldap3 pyarrow torch
ActiveRecord ActiveModel ActiveSupport ActionController ActiveJob PG Mysql2 SQLite3 Mongo Mongoid Redis Faraday Net HTTP HTTParty
RestClient Excon JSON Errno OpenSSL SocketError URI Karafka Rdkafka WaterDrop Racecar Kafka Dry Sidekiq Timeout Psych Date Avro
Google Aws GRPC Sequel Typhoeus Zlib Encoding Racc ROM Oj Nokogiri Rack Shoryuken Sneakers Bunny Dalli
Elasticsearch OpenSearch Stripe Twilio JWT Resque Concurrent Trilogy Cassandra Grape CSV YAML REXML Avromatic
`)

// libraryPrefix returns the length of the library's package or namespace at the beginning of a
// name, with the separator after it. It returns 0 for a name that is not of a library.
func libraryPrefix(name string) int {
	for i := range len(name) {
		if name[i] != '.' && name[i] != ':' {
			continue
		}
		if libraries[name[:i]] {
			return i + 1
		}
		if isUpper(name[0]) || i > 24 {
			return 0 // only the first parts of .NET and Ruby names are listed, and no listed name is longer than 24 bytes
		}
	}
	return 0
}

// isLibraryClass recognizes an exception of a library, whose reason is often outside the method.
func isLibraryClass(class string) bool {
	first, _, _ := strings.Cut(class, ".")
	return libraryPrefix(class) > 0 && !languages[first]
}

// languages are the packages of exceptions that are the fault of the method that throws them.
var languages = set("java kotlin scala System builtins decimal datetime")

// goHosts are the module hosts of Go libraries, and goOwners are the owners of Go libraries on GitHub. Programs that are built
// with -trimpath and a vendor folder need these lists. In other programs, the path of a file shows that the file belongs to
// a library.
var (
	goHosts = set(`
google.golang.org golang.org gopkg.in go.uber.org go.opentelemetry.io k8s.io gorm.io entgo.io go.mongodb.org cloud.google.com sigs.k8s.io
connectrpc.com go.temporal.io go.etcd.io modernc.org nhooyr.io
`)
	goOwners = set(`
segmentio twmb IBM Shopify confluentinc ThreeDotsLabs lovoo jackc lib go-sql-driver jmoiron redis go-redis pkg gofiber valyala gin-gonic
labstack go-chi gorilla hashicorp aws Azure sirupsen rs prometheus grpc-ecosystem stretchr cenkalti avast linkedin hamba golang google
googleapis minio nats-io bufbuild goccy json-iterator bytedance mailru tidwall elastic olivere opensearch-project ClickHouse gocql neo4j
couchbase rabbitmq streadway eapache stripe sony failsafe-go go-playground asaskevich santhosh-tekuri xeipuuv go-resty go-kit go-kratos
zeromicro apache cockroachdb uptrace volatiletech samber spf13 getsentry DataDog gogo vmihailenco klauspost pierrec microsoft denisenkom
shopspring oklog panjf2000
`)
)

// goStandard are the first elements of the standard library's packages.
var goStandard = set(`
archive bufio bytes cmp compress container context crypto database debug embed encoding errors expvar flag fmt go hash html
image index internal io iter log maps math mime net os path plugin reflect regexp runtime slices sort strconv strings
structs sync syscall testing text time unicode unique unsafe vendor weak
`)

func isGoLibrary(pkg string) bool {
	first, rest, _ := strings.Cut(pkg, "/")
	owner, _, _ := strings.Cut(rest, "/")
	return goStandard[first] || goHosts[first] || first == "github.com" && goOwners[owner]
}

// words is a set of names or words.
type words map[string]bool

func set(text string) words {
	w := words{}
	for word := range strings.FieldsSeq(text) {
		w[word] = true
	}
	return w
}
