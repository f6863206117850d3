"""Kinds of secrets, as logs and configurations write them, with random values.

`@` marks the place of the value. The name of a kind identifies it; the text shows its notation. The
values carry no hint except the form of a real secret.
"""

from __future__ import annotations

import base64
import random
import string

_LETTERS = string.ascii_letters + string.digits
_BASE64 = _LETTERS + "+/"
_UPPER = string.ascii_uppercase + string.digits
_LOWER = string.ascii_lowercase + string.digits
_HEX = "0123456789abcdef"
_HARD = _LETTERS + "-_.~!$^*#+/"

# name: (the text, the alphabet of the value, its length)
KINDS: dict[str, tuple[str, str, int]] = {
    # keys of clouds
    "aws-key-id": ("caller AKIA@ is not authorized", _UPPER, 16),
    "aws-session-key-id": ("Access Denied for ASIA@", _UPPER, 16),
    "aws-secret-env": ("export AWS_SECRET_ACCESS_KEY=@", _BASE64, 40),
    "aws-secret-ini": ("aws_secret_access_key = @", _BASE64, 40),
    "aws-session-token": ("AWS_SESSION_TOKEN=@==", _BASE64, 120),
    "aws-presigned": ("GET https://b.s3.amazonaws.com/x?X-Amz-Date=1&X-Amz-Signature=@", _HEX, 64),
    "aws-presigned-token": (
        "https://b.s3.amazonaws.com/x?X-Amz-Security-Token=@&x=1",
        _LETTERS,
        90,
    ),
    "aws-in-url": ("s3a://AKIAIOSFODNN7EXAMPLE:@@bucket/checkpoints", _BASE64, 40),
    "aws-signed-header": ("Authorization: AWS4-HMAC-SHA256 Credential=x/y, Signature=@", _HEX, 64),
    "s3a-conf": ("--conf spark.hadoop.fs.s3a.secret.key=@ --class Main", _BASE64, 40),
    "s3a-key-id-of-minio": ("fs.s3a.access.key: @", _LETTERS, 20),
    "oss-key-id": ("fs.oss.accessKeyId=@", _LETTERS, 24),
    "azure-account-key": ("fs.azure.account.key.acct.dfs.core.windows.net: @==", _BASE64, 86),
    "azure-connection": (
        "AccountName=a;AccountKey=@==;EndpointSuffix=core.windows.net",
        _BASE64,
        86,
    ),
    "azure-sas": ("https://acct.blob.core.windows.net/c/b?sv=2022&se=2026&sig=@%3D", _LETTERS, 43),
    "azure-event-hub": (
        "Endpoint=sb://h/;SharedAccessKeyName=root;SharedAccessKey=@=",
        _BASE64,
        43,
    ),
    "azure-client-secret": ("fs.azure.account.oauth2.client.secret=@", _HARD, 40),
    "gcp-api-key": ("https://maps.googleapis.com/x?key=AIza@", _LETTERS + "-_", 35),
    "gcp-oauth": ("using ya29.@ for gs://bucket", _LETTERS + "-_", 60),
    "gcp-client-secret": ("client GOCSPX-@ refused", _LETTERS, 28),
    "gcp-service-account": (
        '{"private_key_id": "1", "private_key": "-----BEGIN PRIVATE KEY-----\\n@\\n-----END PRIVATE KEY-----\\n"}',
        _BASE64,
        64,
    ),
    # tokens
    "github-classic": ("fatal: could not read from https://github.com: ghp_@", _LETTERS, 36),
    "github-fine": ("github_pat_@", _LETTERS, 60),
    "gitlab": ("PRIVATE glpat-@ used", _LETTERS, 20),
    "gitlab-runner": ("runner glrt-@ used", _LETTERS, 20),
    "slack-bot": ("posting with xoxb-@", _LETTERS, 40),
    "slack-app": ("posting with xapp-1-@", _LETTERS, 40),
    "slack-webhook": ("POST https://hooks.slack.com/services/T00000000/B00000000/@", _LETTERS, 24),
    "discord-webhook": ("POST https://discord.com/api/webhooks/1234567890/@", _LETTERS, 60),
    "telegram": ("POST https://api.telegram.org/bot1234567890:AA@/sendMessage", _LETTERS, 33),
    "jwt": ("sent eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.@", _LETTERS, 43),
    "bearer": ("-H 'Authorization: Bearer @'", _HARD[:-2], 40),
    "bearer-alone": ("sends Bearer @ to the gateway", _LETTERS, 40),
    "bearer-of-letters": ("Authorization: Bearer @", string.ascii_lowercase, 12),
    "basic": ("authorization: Basic @==", _LETTERS, 30),
    "proxy-header": ("Proxy-Authorization: Digest @", _LETTERS, 30),
    "api-key-header": ("X-Api-Key: @", _HEX, 32),
    "cookie": ("Cookie: theme=dark; sid=@; lang=en", _LETTERS, 30),
    "set-cookie": ("< Set-Cookie: JSESSIONID=@; Path=/", _HEX, 32),
    "npm": ("npm_@", _LETTERS, 36),
    "pypi": ("pypi-@", _LETTERS, 100),
    "docker-hub": ("dckr_pat_@", _LETTERS, 27),
    "stripe": ("charged with sk_live_@", _LETTERS, 24),
    "sendgrid": ("mail by SG.@.abcdefghijklmnopqrstuvwxyz0123", _LETTERS, 22),
    "vault": ("X-Vault: hvs.@", _LETTERS, 90),
    "openai": ("sk-proj-@", _LETTERS, 48),
    "databricks": ("dapi@", _HEX, 32),
    "digitalocean": ("dop_v1_@", _HEX, 64),
    "hugging-face": ("hf_@", _LETTERS, 34),
    "grafana": ("glsa_@_1234abcd", _LETTERS, 32),
    "shopify": ("shpat_@", _HEX, 32),
    # databases and URLs
    "jdbc-mysql": ("jdbc:mysql://root:@@db:3306/orders", _HARD, 20),
    "jdbc-postgres": ("jdbc:postgresql://db/orders?user=ann&password=@&ssl=true", _LETTERS, 20),
    "jdbc-oracle": ("jdbc:oracle:thin:scott/@@db:1521:xe", _LETTERS, 12),
    "jdbc-sqlserver": ("jdbc:sqlserver://db:1433;user=sa;password=@;encrypt=true", _LETTERS, 20),
    "mongodb": ("mongodb+srv://ann:@@cluster0.mongodb.net/x", _HARD, 20),
    "redis": ("redis://:@@cache:6379/0", _LETTERS, 20),
    "amqp": ("amqps://ann:@@mq/vhost", _LETTERS, 20),
    "http-user": ("GET https://ann:@@repo.corp/artifact.jar", _LETTERS, 20),
    "token-as-user": ("cloning https://@@git.corp/repo.git", _LETTERS, 40),
    "sql-password": ("CREATE USER ann IDENTIFIED BY '@'", _LETTERS, 16),
    "flink-sql-option": ("WITH ('connector' = 'jdbc', 'password' = '@')", _HARD + ",; ", 20),
    # Kafka
    "jaas-plain": (
        'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="@";',
        _HARD + ",; ",
        24,
    ),
    "jaas-scram-single": ("ScramLoginModule required username='u' password='@';", _HARD, 24),
    "jaas-oauth": ('OAuthBearerLoginModule required clientId="c" clientSecret="@";', _LETTERS, 24),
    "kafka-keystore": ("ssl.keystore.password = @", _LETTERS, 16),
    "kafka-truststore": ("\tssl.truststore.password=@", _LETTERS, 16),
    "schema-registry": ("basic.auth.user.info=ann:@", _LETTERS, 30),
    # private keys
    "pem-lines": ("-----BEGIN RSA PRIVATE KEY-----\n@\n-----END RSA PRIVATE KEY-----", _BASE64, 64),
    "pem-openssh": ("x -----BEGIN OPENSSH PRIVATE KEY-----\n@", _BASE64, 70),
    "pem-encrypted": ("-----BEGIN ENCRYPTED PRIVATE KEY-----\r\n@\r\n", _BASE64, 64),
    "pgp": ("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n@\n", _BASE64, 64),
    "age": ("AGE-SECRET-KEY-1@", _UPPER, 58),
    # options and forms
    "java-property": ("-Xmx1g -Djavax.net.ssl.keyStorePassword=@ -cp x.jar", _HARD, 16),
    "java-property-quoted": ("-Dx.password='@'", _HARD + " ", 16),
    "option-equals": ("--db-password=@ --verbose", _HARD, 16),
    "option-space": ("--db-password @ --verbose", _LETTERS, 16),
    "option-token": ("--api-token @", _LOWER, 30),
    "curl-user": ("curl -s -u ann:@ https://x/", _LETTERS, 16),
    "env": ("DB_PASS=@", _HARD, 16),
    "env-redis": ("REDIS_PASSWORD=@ ./run.sh", _HARD, 16),
    "json": ('{"user": "ann", "password": "@", "port": 1}', _HARD + ",; ", 16),
    "json-in-json": ('{\\"apiKey\\":\\"@\\",\\"x\\":1}', _LETTERS, 32),
    "json-pairs": ('{"key":"s3.secret-key","value":"@"}', _BASE64, 40),
    "json-pairs-of-kubernetes": ('{"name":"DB_PASSWORD","value":"@"}', _LETTERS, 16),
    "json-list-pair": ('["spark.ssl.keyPassword","@"]', _LETTERS, 16),
    "yaml": ("  sasl.password: @", _HARD, 16),
    "yaml-quoted": ('password : "@"', _HARD + ",; :", 16),
    "yaml-block": ("password: |\n  @", _LETTERS, 16),
    "yaml-of-kubernetes": ("- name: DB_PASSWORD\n  value: @", _LETTERS, 16),
    "properties": ("db.passwd=@", _HARD, 16),
    "xml-element": ("<password>@</password>", _HARD, 16),
    "xml-of-hadoop": ("<name>fs.s3a.secret.key</name><value>@</value>", _BASE64, 40),
    "xml-attribute": ('<user name="ann" password="@"/>', _HARD + ",; ", 16),
    "scala-tuple": ("(spark.ssl.trustStorePassword,@)", _LETTERS, 16),
    "scala-map": ("Map(kafka.sasl.password -> @, x -> y)", _LETTERS, 16),
    "url-encoded": ("body: user=ann&client_secret%3D@", _LETTERS, 16),
    "to-string": ("Config[password=@, user=ann]", _LETTERS, 16),
    "to-string-brackets": ("password=[@]", _LETTERS, 16),
    # hidden by Flink's GlobalConfiguration and by spark.redaction.regex
    "flink-auth-params": ("x.auth-params: @", _LETTERS, 16),
    "flink-service-key": ("service-key=@", _LETTERS, 16),
    "flink-basic-auth": ("x.basic-auth: ann:@", _LETTERS, 16),
    "flink-http-headers": ("metrics.http-headers: X-Auth:@", _LETTERS, 16),
    "spark-access-key": ("spark.hadoop.fs.s3.accesskey=@", _LETTERS, 16),
    "spark-token": ("spark.kubernetes.authenticate.submission.oauthToken=@", _LETTERS, 40),
}


def secret_of(kind: str, seed: int) -> tuple[str, str]:
    """Return a text with a secret of a kind, and the secret.

    Args:
        kind: a key of `KINDS`.
        seed: each seed gives another secret.
    """
    text, characters, length = KINDS[kind]
    random_ = random.Random(f"{kind} {seed}")
    value = "".join(random_.choice(characters) for _ in range(length))
    # The form excludes text that ends an unquoted value or resembles a word.
    value = (
        random_.choice(_LETTERS if characters not in (_HEX, _UPPER) else _HEX[:10]) + value[1:-1]
    )
    value += random_.choice("123456789")
    before, _, after = text.partition("@")
    return f"{before}{value}{after}", value


def encodings(secret: str) -> list[str]:
    """Return the secret in all notations: plain, escaped as JSON, XML or Markdown, in base64."""
    escaped = "".join(c if c.isalnum() else f"\\{c}" for c in secret)
    xml = secret.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return [secret, escaped, xml, base64.b64encode(secret.encode()).decode()]


# Values that resemble secrets and must stay readable.
ORDINARY = (
    "Checkpoint 7 of job 0123456789abcdef0123456789abcdef expired before completing.",
    "Completed checkpoint 12 for job a1b2c3d4e5f60718293a4b5c6d7e8f90 (5242880 bytes, checkpointDuration=812 ms).",
    "Deploying Map (3/6) (attempt #0) with attempt id 0123456789abcdef0123456789abcdef_cbc357ccb763df2852fee8c4fc7d55f2_2_0 to container_e05_1_01_000002 @ worker-3 (dataPort=40090)",
    "vertex cbc357ccb763df2852fee8c4fc7d55f2, slot request 9f1c9b1f0a6b2f6a1c1f0d0f5a4e3d2c",
    "pekko.tcp://flink@jobmanager:6123/user/rpc/jobmanager_2",
    "pekko.ssl.tcp://flink@10.0.0.3:6122/user/rpc/taskmanager_0#-1202034",
    "Key group 5 is not in KeyGroupRange{startKeyGroup=0, endKeyGroup=1}",
    "the token bucket is empty, tokens: 12, waiting 5 ms",
    "primary key (id), foreign key: order_id, partition key = user_id, row key: 7",
    "Password must not be empty; no password was given; the password is needed",
    "http://host:8081/jobs/overview",
    "http://host:8081/packages/@scope/thing@1.2.3",
    "hdfs://namenode:8020/user/flink/checkpoints/a1b2c3d4e5f60718293a4b5c6d7e8f90/chk-12",
    "s3://bucket/savepoints/savepoint-a1b2c3-0123456789ab/_metadata",
    "signal: SIGTERM, design=1, author=me, assigned=3",
    "Basic authentication is switched off, basic statistics follow, bearer authentication too",
    "26/01/01 10:00:00 INFO HadoopDelegationTokenManager: Starting up",
    "org.apache.flink.runtime.security.token.DefaultDelegationTokenManager - Loading delegation token providers",
    "fs.s3a.aws.credentials.provider=com.amazonaws.auth.InstanceProfileCredentialsProvider",
    "security.delegation.tokens.enabled: true, security.delegation.token.provider.hadoopfs.enabled=false",
    "spark.kubernetes.authenticate.oauthTokenFile=/var/run/secrets/token",
    "javax.security.auth.login.LoginException: no credentials",
    "InvalidTokenException: the request was refused",
    "PWD=/opt/flink, OLDPWD=/",
    "sk-bratislava-streaming-worker-0003.corp joined, gh_orders_enriched_joined_to_kafka_sink",
    "Tokenizer: Keyed Aggregation -> Sink (2/4), tokenizer=standard",
    "offset 90071992547409 of orders-7, commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "sessionid = 0x10004c8c8c30001, negotiated timeout = 40000",
    "org.apache.kafka.common.security.plain.PlainLoginModule",
    "worker-3.example:6122-a1b2c3, ip-10-0-0-3.ec2.internal, container_1700000000000_0001_01_000002",
    "RocksDB: write_buffer_size=67108864, block cache 536870912",
    "--password-file /run/secrets/x --token-file t",
    "task.cancellation.timeout: 180000, state.backend.rocksdb.memory.managed=true",
)
