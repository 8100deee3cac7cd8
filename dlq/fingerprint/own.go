package fingerprint

import "strings"

// libraries are the packages and namespaces of languages and well-known libraries, for the
// JVM, .NET, Python and Ruby. Code in them, and in packages below them, is not own.
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
System Interop Microsoft Windows Npgsql MySql MySqlConnector Oracle MongoDB StackExchange Confluent MassTransit NServiceBus Rebus
Newtonsoft Polly Serilog NLog Grpc Google Dapper MediatR FluentValidation AutoMapper Autofac Castle Azure Amazon OpenTelemetry
RabbitMQ Refit RestSharp Hangfire Quartz Akka Wolverine Marten Silverback KafkaFlow Elastic Sentry Prometheus
builtins asyncio json decimal socket ssl http urllib urllib3 requests httpx aiohttp sqlalchemy psycopg psycopg2 asyncpg
pymysql MySQLdb sqlite3 pymongo redis pydantic pydantic_core marshmallow jsonschema django flask fastapi starlette celery
kombu confluent_kafka kafka aiokafka faust grpc google boto3 botocore azure avro fastavro numpy pandas concurrent
subprocess zoneinfo datetime xml email multiprocessing elasticsearch tenacity orjson simplejson msgpack
ActiveRecord ActiveModel ActiveSupport ActionController ActiveJob PG Mysql2 SQLite3 Mongo Mongoid Redis Faraday Net HTTP HTTParty
RestClient Excon JSON Errno OpenSSL SocketError URI Karafka Rdkafka WaterDrop Racecar Kafka Dry Sidekiq Timeout Psych Date Avro
Google Aws GRPC Sequel Typhoeus Zlib Encoding Racc ROM
`)

// libraryPrefix returns the length of the package or namespace of a library that a name begins
// with, and of the separator after it. It returns 0 if there is none.
func libraryPrefix(name string) int {
	for i := range len(name) {
		if name[i] != '.' && name[i] != ':' {
			continue
		}
		if libraries.has(name[:i]) {
			return i + 1
		}
		if isUpper(name[0]) || i > 24 {
			return 0 // a namespace of .NET or Ruby, or longer than all names
		}
	}
	return 0
}

// isLibraryClass recognizes an exception of a library, whose reason is often outside the method.
func isLibraryClass(class string) bool {
	first, _, _ := strings.Cut(class, ".")
	return libraryPrefix(class) > 0 && !languages.has(first)
}

// languages are the packages of exceptions that are faults of the method they come from.
var languages = set("java kotlin scala System builtins decimal datetime")

// goLibraries are the module hosts and owners of well-known Go libraries. Most libraries are
// recognized by their path; this list is for programs that are built with -trimpath and a
// vendor folder.
var goLibraries = set(`
google.golang.org golang.org gopkg.in go.uber.org go.opentelemetry.io k8s.io
github.com/segmentio github.com/twmb github.com/IBM github.com/Shopify github.com/confluentinc github.com/ThreeDotsLabs
github.com/lovoo github.com/jackc github.com/lib github.com/go-sql-driver github.com/jmoiron github.com/redis github.com/go-redis
github.com/pkg github.com/gofiber github.com/valyala github.com/gin-gonic github.com/labstack github.com/go-chi
github.com/gorilla github.com/hashicorp github.com/aws github.com/Azure github.com/sirupsen github.com/rs github.com/prometheus
github.com/grpc-ecosystem github.com/stretchr github.com/cenkalti github.com/avast github.com/linkedin github.com/hamba
gorm.io entgo.io
`)

// goStandard are the first elements of the standard library's packages.
var goStandard = set(`
archive bufio bytes cmp compress container context crypto database debug embed encoding errors expvar flag fmt go hash html
image index internal io iter log maps math mime net os path plugin reflect regexp runtime slices sort strconv strings
structs sync syscall testing text time unicode unique unsafe vendor weak
`)

func isGoLibrary(pkg string) bool {
	first, rest, _ := strings.Cut(pkg, "/")
	owner, _, _ := strings.Cut(rest, "/")
	return goStandard.has(first) || goLibraries.has(first) || goLibraries.has(first+"/"+owner)
}

// words is a set of names or words.
type words map[string]struct{}

func (w words) has(word string) bool {
	_, ok := w[word]
	return ok
}

func set(text string) words {
	w := words{}
	for word := range strings.FieldsSeq(text) {
		w[word] = struct{}{}
	}
	return w
}
