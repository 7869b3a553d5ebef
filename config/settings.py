"""Settings: read from the environment (FLIGHTDECK_*, DATABASE_URL), refusing bad values at start.

Importing this module opens nothing: the database server is started by config.supervisor.
"""

import os
import re
from datetime import timedelta
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

from csp.constants import NONE, SELF, UNSAFE_EVAL, UNSAFE_INLINE
from django.core.exceptions import ImproperlyConfigured

from config import logs
from config.environment import (
    count,
    earlier_secrets,
    env,
    kept_secret,
    key_ring,
    listed,
    positive,
    secret,
    web_address,
    yes_no,
)
from config.navigation import UNFOLD as UNFOLD
from config.postgres import APP_ROLE, connection_hint, database_urls
from tasks_app.domains import DOMAIN_HINT, is_domain
from tasks_app.people.role_names import ROLE_NAMES

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = Path(env.str("FLIGHTDECK_VAR", str(BASE_DIR / "var")))

DEBUG = yes_no("FLIGHTDECK_DEBUG", False)
_KEY, _KEY_AS_TOLD = secret("FLIGHTDECK_SECRET_KEY")
SECRET_KEY = _KEY or kept_secret(VAR_DIR / "secret_key")
SECRET_KEY_FALLBACKS = [*earlier_secrets("FLIGHTDECK_SECRET_KEY_FALLBACKS"), *_KEY_AS_TOLD]
# The key ring of encrypted columns: the first encrypts, all decrypt (django-fernet-encrypted-fields).
SALT_KEY = key_ring("FLIGHTDECK_FIELD_KEYS") or [kept_secret(VAR_DIR / "field_key")]
PUBLIC_URL = web_address("FLIGHTDECK_PUBLIC_URL", "http://127.0.0.1:8000")
ALLOWED_HOSTS = [
    *listed("FLIGHTDECK_HOSTS", ["localhost", "127.0.0.1", "[::1]"]),
    urlsplit(PUBLIC_URL).hostname or "",
]
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL] if PUBLIC_URL.startswith("https://") else []

# A worker serves no pages: what makes them is loaded there when it is needed, not held by each process.
PAGES = yes_no("FLIGHTDECK_PAGES", True)
INSTALLED_APPS = [
    "unfold",
    "config.apps.AdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
    "django_fsm",
    "rest_framework",
    "knox",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_q",
    "axes",
    "django_structlog",
    "django_prometheus",
    *(["health_check"] if PAGES else []),
    "tasks_app",
    "orders",
    "campaigns",
]

MIDDLEWARE = [
    "django_prometheus.middleware.PrometheusBeforeMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "config.middleware.TimeZoneMiddleware",
    "config.middleware.KeptTextMiddleware",
    "tasks_app.people.sessions.SeenMiddleware",
    "django_structlog.middlewares.RequestMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "tasks_app.people.gate.SecondFactorMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
    "django_prometheus.middleware.PrometheusAfterMiddleware",
]

ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

# --- strangers: who brings no session and no token that is somebody's -------------------------------
# A minute of each address; all together have three times as much. In each web process (config.edge).
STRANGERS_PAGES = count("FLIGHTDECK_STRANGERS_PAGES", 120)
STRANGERS_FILES = count("FLIGHTDECK_STRANGERS_FILES", 600)
STRANGERS_SIGN_INS = count("FLIGHTDECK_STRANGERS_SIGN_INS", 12)
CONNECTIONS = count("FLIGHTDECK_CONNECTIONS", 2000)  # open at a time, in each web process (config.web)
CONNECTIONS_EACH = count("FLIGHTDECK_CONNECTIONS_EACH", 200)  # of one address that is no proxy
if min(STRANGERS_PAGES, STRANGERS_FILES, STRANGERS_SIGN_INS, CONNECTIONS, CONNECTIONS_EACH) < 1:
    raise ImproperlyConfigured("Allowances of strangers and of connections must be at least 1")

# --- webhooks -----------------------------------------------------------------------------------
WEBHOOK_THREADS = count("FLIGHTDECK_WEBHOOK_THREADS", 16, most=1_000)
WEBHOOK_ASIDE_THREADS = 3  # beside them: for who was refused of late, or waits for a seller’s keys
# Of one thread's time in each web process: applied before they are answered; in a burst workers do the rest.
WEBHOOK_APPLIED_SHARE = positive("FLIGHTDECK_WEBHOOK_APPLIED_SHARE", 0.1)
# All processes together: a seller's deliveries in 10 s; refused ones of one address in 60 s.
WEBHOOK_SELLER_CAP = count("FLIGHTDECK_WEBHOOK_SELLER_CAP", 3000)
WEBHOOK_SOURCE_CAP = count("FLIGHTDECK_WEBHOOK_SOURCE_CAP", 120)
WEBHOOK_REFUSED_ROWS = count("FLIGHTDECK_WEBHOOK_REFUSED_ROWS", 200)  # kept, per seller and hour
# Bytes of a seller's deliveries in a day, whatever they are about.
WEBHOOK_SELLER_BYTES = count("FLIGHTDECK_WEBHOOK_SELLER_BYTES", 2**30, least=2**20, most=2**40)
# Bytes of a seller's deliveries that wait for tasks that are not known.
WEBHOOK_WAITING_BYTES = count("FLIGHTDECK_WEBHOOK_WAITING_BYTES", 8 * 2**20)
WEBHOOK_NONCES_PER_KEY = count("FLIGHTDECK_WEBHOOK_NONCES_PER_KEY", 100_000)
WEBHOOK_NONCES_IN_ALL = count("FLIGHTDECK_WEBHOOK_NONCES_IN_ALL", 1_000_000)
WEBHOOK_KEEP = timedelta(days=positive("FLIGHTDECK_WEBHOOK_KEEP_DAYS", 90))  # refused and repeated ones
_numbers = (WEBHOOK_THREADS, WEBHOOK_SELLER_CAP, WEBHOOK_SOURCE_CAP, WEBHOOK_WAITING_BYTES)
if min(*_numbers, WEBHOOK_NONCES_PER_KEY, WEBHOOK_NONCES_IN_ALL) < 1:
    raise ImproperlyConfigured("FLIGHTDECK_WEBHOOK_… numbers must be at least 1")

# --- database: PostgreSQL only, two roles --------------------------------------------------------
DATABASE_URLS = _urls = database_urls(BASE_DIR, os.environ)
# What a command says when the database is away.
CONNECTION_HINT = partial(connection_hint, BASE_DIR, os.environ)
# The name of the application's role: whom migrations give what it needs, and refuse the rest.
DB_ROLE = APP_ROLE
if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", DB_ROLE):
    raise ImproperlyConfigured("FLIGHTDECK_DB_ROLE is a role's name: small letters, digits and _")
DB_LOGIN = env.str("FLIGHTDECK_DB_LOGIN", "app")
if DB_LOGIN not in ("app", "owner"):
    raise ImproperlyConfigured("FLIGHTDECK_DB_LOGIN is app or owner")
DATABASES = {"default": env.db_url_config(_urls.owner if DB_LOGIN == "owner" else _urls.app)}
if DATABASES["default"]["ENGINE"] != "django.db.backends.postgresql":
    raise ImproperlyConfigured("Flightdeck runs on PostgreSQL only: DATABASE_URL must be postgres://…")
DATABASES["default"]["ATOMIC_REQUESTS"] = False
# A host that answers nothing any more is given up; seconds, then milliseconds. What the URL says goes first.
_GIVEN_UP = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
DATABASES["default"]["OPTIONS"] = {**_GIVEN_UP, **DATABASES["default"].get("OPTIONS", {})}
# The pool does not survive django-q2's forks: web processes only (config.asgi sets it).
if yes_no("FLIGHTDECK_DB_POOL", False):
    # Threads that take webhooks keep a connection each, beside those of pages.
    _most = 8 + WEBHOOK_THREADS + WEBHOOK_ASIDE_THREADS
    DATABASES["default"]["OPTIONS"]["pool"] = {"min_size": 1, "max_size": _most, "timeout": 10}
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True  # after a restart the pool is full of dead ones
else:
    DATABASES["default"]["CONN_MAX_AGE"] = 60
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- people -------------------------------------------------------------------------------------
AUTH_USER_MODEL = "tasks_app.User"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "tasks_app.people.holders.RoleBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "tasks_app.people.passwords.PasswordLog"},
]
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_ENABLE_ACCESS_FAILURE_LOG = True
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False  # what is refused unread counts for nothing
AXES_HANDLER = "tasks_app.people.lockout.LockOut"
AXES_USERNAME_CALLABLE = "tasks_app.people.lockout.username_counted"
AXES_CLIENT_IP_CALLABLE = "tasks_app.people.lockout.address_counted"
# Failures from one address in AXES_COOLOFF_TIME, under whatever names; then nobody there signs in.
LOGIN_FAILURES_PER_ADDRESS = count("FLIGHTDECK_LOGIN_FAILURES_PER_ADDRESS", 30)
# Who must have a second factor; empty for nobody. Anybody may set one up.
SECOND_FACTOR_ROLES = listed(
    "FLIGHTDECK_SECOND_FACTOR_ROLES", ["Approver", "Administrator"], known=ROLE_NAMES
)
SESSION_ENGINE = "tasks_app.people.sessions"
SESSION_COOKIE_AGE = int(positive("FLIGHTDECK_SESSION_HOURS", 168) * 3600)
SESSION_COOKIE_SAMESITE = "Lax"
SECURITY_KEEP = timedelta(days=positive("FLIGHTDECK_SECURITY_KEEP_DAYS", 400))
if timedelta(days=90) > SECURITY_KEEP:
    raise ImproperlyConfigured("FLIGHTDECK_SECURITY_KEEP_DAYS must be at least 90")
LOGIN_URL = "admin:login"
LOGIN_REDIRECT_URL = "admin:index"

# --- web ----------------------------------------------------------------------------------------
LANGUAGE_CODE = "en-us"
USE_I18N = False
FORMAT_MODULE_PATH = "config.formats"
USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG
DATA_UPLOAD_MAX_MEMORY_SIZE = 6 * 2**20
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
_https = PUBLIC_URL.startswith("https://")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = _https
SECURE_HSTS_SECONDS = 31_536_000 if _https else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = _https
if _https:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
# Proxies in front of us, as addresses or networks: from these alone X-Forwarded-For and X-Forwarded-Proto
# are believed (config.middleware.TrustedProxies).
try:
    PROXIES = [ip_network(one) for one in listed("FLIGHTDECK_PROXIES")]
except ValueError as _wrong:
    raise ImproperlyConfigured(f"FLIGHTDECK_PROXIES names addresses or networks: {_wrong}") from None
# Who may read /metrics: who brings the token, or asks from one of the networks; nobody by default.
METRICS_TOKEN = env.str("FLIGHTDECK_METRICS_TOKEN", "").strip()
try:
    METRICS_NETWORKS = [ip_network(one) for one in listed("FLIGHTDECK_METRICS_NETWORKS")]
except ValueError as _wrong:
    raise ImproperlyConfigured(f"FLIGHTDECK_METRICS_NETWORKS names addresses or networks: {_wrong}") from None
METRICS_SELLERS = count("FLIGHTDECK_METRICS_SELLERS", 200)  # named one by one
# unfold ships Alpine ('unsafe-eval') and one inline style; scripts stay ours alone.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF, UNSAFE_EVAL],
        "style-src": [SELF, UNSAFE_INLINE],
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
        "base-uri": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}

# --- API ----------------------------------------------------------------------------------------
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "tasks_app.api.authentication.LimitedTokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["tasks_app.api.parsers.StrictJSONParser"],
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_PAGINATION_CLASS": "config.api.KeyPagination",
    "PAGE_SIZE": 50,
    "EXCEPTION_HANDLER": "config.api.problem_handler",
    "COERCE_DECIMAL_TO_STRING": True,
}
KNOX_TOKEN_MODEL = "tasks_app.ApiToken"  # noqa: S105 (a model)
REST_KNOX = {
    "TOKEN_TTL": timedelta(days=90),
    "AUTO_REFRESH": False,
    "TOKEN_PREFIX": "fd_",
    "AUTH_HEADER_PREFIX": "Token",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Flightdeck API",
    "DESCRIPTION": "Campaigns, deals, operations, jobs and approvals of agentic media buying.",
    "VERSION": "1.0.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "OAS_VERSION": "3.1.1",
    "COMPONENT_SPLIT_REQUEST": True,
    # Served from the package: the content security policy allows nothing from elsewhere, nothing inline.
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "ENUM_NAME_OVERRIDES": {
        "CampaignStatus": "campaigns.models.CampaignStatus",
        "DealStatus": "orders.models.DealStatus",
        "OperationStatus": "tasks_app.operations.models.OperationStatus",
        "JobStatus": "tasks_app.jobs.models.JobStatus",
        "StepStatus": "tasks_app.jobs.models.StepStatus",
        "WorkflowStatus": "tasks_app.jobs.progress.WORKFLOW_STATUSES",
        "WaitType": "tasks_app.jobs.waits.WAIT_TYPES",
        "ApprovalStatus": "tasks_app.approvals.models.ApprovalStatus",
        "Channel": "tasks_app.operations.models.Channel",
        "ObservationOutcome": "tasks_app.operations.models.Observation.Outcome",
        "ConflictKind": "tasks_app.operations.conflict.Conflict.Kind",
        "Verdict": "tasks_app.approvals.models.Decision.Verdict",
    },
}

# --- workers (django-q2): rows hold the truth, the queue only wakes ------------------------------
WORKERS = count("FLIGHTDECK_WORKERS", 2, most=256)
QUEUE_TIMEOUT_S = 120
Q_CLUSTER = {
    "name": "flightdeck",
    "cluster_name": "flightdeck.main",  # the lane of what names none (tasks_app.lanes)
    "orm": "default",
    "broker_class": "tasks_app.jobs.broker.PostgresBroker",
    "workers": WORKERS,
    "scheduler": False,  # schedules are ours: tasks_app.jobs.schedules
    "timeout": QUEUE_TIMEOUT_S,
    "retry": 180,
    "max_attempts": 3,
    "save_limit": 200,
    "catch_up": False,
    "bulk": 1,
    "queue_limit": 16,
    "label": "Queue",
}
STEP_LEASE_S = positive("FLIGHTDECK_STEP_LEASE_S", 7)  # and the sweep's tick: free within ten seconds
DRAIN_STEPS = 50
# Later than this a scheduled start is missed: run once for all that were, or skipped, as the schedule says.
SCHEDULE_GRACE = timedelta(seconds=positive("FLIGHTDECK_SCHEDULE_GRACE_S", 300))
OUTSIDE_EVENT_KEEP = timedelta(days=positive("FLIGHTDECK_OUTSIDE_EVENT_KEEP_DAYS", 30))

# --- streams of job events (server-sent events) ---------------------------------------------------
STREAM_TICK_S = positive("FLIGHTDECK_STREAM_TICK_S", 0.5)
STREAM_HEARTBEAT_S = positive("FLIGHTDECK_STREAM_HEARTBEAT_S", 15)
STREAM_MOST_S = positive("FLIGHTDECK_STREAM_MOST_S", 900)  # then whoever watches shows their right again
STREAMS = count("FLIGHTDECK_STREAMS", 500)  # per web process
STREAMS_PER_USER = count("FLIGHTDECK_STREAMS_PER_USER", 8)
if min(STREAMS, STREAMS_PER_USER) < 1:
    raise ImproperlyConfigured("FLIGHTDECK_STREAMS and FLIGHTDECK_STREAMS_PER_USER must be at least 1")

# --- operations with sellers --------------------------------------------------------------------
# One factor shortens every polling interval (demo, tests); 1 is what the documents say.
POLL_SCALE = positive("FLIGHTDECK_POLL_SCALE", 1.0)
# Of what is seen of one operation: bytes that are kept whole.
OBSERVED_BYTES = count("FLIGHTDECK_OBSERVED_BYTES", 4 * 2**20)
SWEEP_TICK_S = positive("FLIGHTDECK_SWEEP_TICK_S", 1.0)
SWEEP_BATCH = count("FLIGHTDECK_SWEEP_BATCH", 200)
OPERATION_LEASE_S = positive("FLIGHTDECK_OPERATION_LEASE_S", 7)
# Twice the longest is waited for at the end of a sweep's turn of an hour, which is to be the longer
# (tasks_app.operations.sweep).
CALL_TIMEOUT_S = positive("FLIGHTDECK_CALL_TIMEOUT_S", 60, most=1750)
WORKING_TIMEOUT_S = positive("FLIGHTDECK_WORKING_TIMEOUT_S", 300, most=1750)
OPERATION_DEADLINES = {
    "create_media_buy": timedelta(hours=24),
    "update_media_buy": timedelta(hours=12),
    "creative_approval": timedelta(hours=48),
    "read": timedelta(minutes=10),
}
# What people gave up is looked at for so long: a late answer comes back to a person.
LOOK_AFTER_GIVING_UP = timedelta(days=positive("FLIGHTDECK_LOOK_AFTER_GIVING_UP_DAYS", 7))
# Where sellers that are allowed a private address may live.
PRIVATE_NETWORKS = listed("FLIGHTDECK_PRIVATE_NETWORKS", ["127.0.0.0/8", "::1/128"])
# How often a seller is asked again what it can do.
CAPABILITIES_EVERY_S = positive("FLIGHTDECK_CAPABILITIES_EVERY_S", 86_400)
# Reconciliation with sellers: how often, how long all sellers together may take, how long reports are kept.
RECONCILE_EVERY_S = positive("FLIGHTDECK_RECONCILE_EVERY_S", 3600)
RECONCILE_LIMIT_S = positive("FLIGHTDECK_RECONCILE_LIMIT_S", 80)
RECONCILE_KEEP = timedelta(days=positive("FLIGHTDECK_RECONCILE_KEEP_DAYS", 90))
# Reading media buys again: after booking, usually, after a change; and how long one seller may take.
MIRROR_FIRST_S = positive("FLIGHTDECK_MIRROR_FIRST_S", 60)
MIRROR_EVERY_S = positive("FLIGHTDECK_MIRROR_EVERY_S", 3600)
MIRROR_MOVED_S = positive("FLIGHTDECK_MIRROR_MOVED_S", 600)
MIRROR_LIMIT_S = positive("FLIGHTDECK_MIRROR_LIMIT_S", 60)
# A seller that never calls its figures final: a completed buy is over so long after its flight.
FINAL_DELIVERY_DAYS = positive("FLIGHTDECK_FINAL_DELIVERY_DAYS", 30)
for _limit in (RECONCILE_LIMIT_S, MIRROR_LIMIT_S):
    if _limit > QUEUE_TIMEOUT_S - 30:
        raise ImproperlyConfigured("FLIGHTDECK_RECONCILE_LIMIT_S and FLIGHTDECK_MIRROR_LIMIT_S: at most 90")
# The house that `migrate` names while it has no name; administrators name and change it in the admin.
HOUSE_NAME = env.str("FLIGHTDECK_ORGANISATION", "").strip()
HOUSE_DOMAIN = env.str("FLIGHTDECK_ORGANISATION_DOMAIN", "").strip().lower()
if (HOUSE_NAME or HOUSE_DOMAIN) and not (0 < len(HOUSE_NAME) <= 120 and is_domain(HOUSE_DOMAIN)):
    raise ImproperlyConfigured(
        "Set FLIGHTDECK_ORGANISATION to a name and FLIGHTDECK_ORGANISATION_DOMAIN to "
        f"{DOMAIN_HINT}, or neither"
    )
APPROVAL_TTL = timedelta(hours=24)
# Who may decide is reminded so long before the deadline, of short ones when a quarter of the time is left.
APPROVAL_REMIND = timedelta(seconds=positive("FLIGHTDECK_APPROVAL_REMIND_S", 4 * 3600))
# An approval ends so long before the seller's hold does, of short holds at half of what is left.
APPROVAL_HOLD_MARGIN = timedelta(seconds=positive("FLIGHTDECK_APPROVAL_HOLD_MARGIN_S", 3600))
# How long a claim holds, and how long the link in a mail opens its page.
APPROVAL_CLAIM = timedelta(seconds=positive("FLIGHTDECK_APPROVAL_CLAIM_S", 4 * 3600))
APPROVAL_LINK = timedelta(seconds=positive("FLIGHTDECK_APPROVAL_LINK_S", 7 * 86_400))
# Approving more than this, in USD, is asked once more on the approval's page.
APPROVAL_CONFIRM_ABOVE = count("FLIGHTDECK_APPROVAL_CONFIRM_ABOVE", 250_000, least=0, most=10**12)
MAX_BRIEF_BYTES = 1 * 2**20
# Signs the anchors of the trail; kept outside the database.
ANCHOR_KEY = Path(env.str("FLIGHTDECK_ANCHOR_KEY", str(VAR_DIR / "anchor_key.pem")))
API_MAX_BYTES = 1 * 2**20  # any other body
EXPORT_ROWS = count("FLIGHTDECK_EXPORT_ROWS", 50_000)  # of a list, as CSV

# --- events: retries of a subscriber, and how long delivered events are kept -----------------------
EVENT_TICK_S = positive("FLIGHTDECK_EVENT_TICK_S", 0.2)
EVENT_RETRY_FIRST_S = positive("FLIGHTDECK_EVENT_RETRY_FIRST_S", 1)
EVENT_RETRY_CAP_S = positive("FLIGHTDECK_EVENT_RETRY_CAP_S", 300)
EVENT_ATTEMPTS = count("FLIGHTDECK_EVENT_ATTEMPTS", 12)
if EVENT_ATTEMPTS < 1:
    raise ImproperlyConfigured(f"FLIGHTDECK_EVENT_ATTEMPTS must be at least 1, got {EVENT_ATTEMPTS}")
EVENT_KEEP = timedelta(days=positive("FLIGHTDECK_EVENT_KEEP_DAYS", 30))

# --- health of sellers, notifications ---------------------------------------------------------------
# Under this share of webhooks that came, of at least so many that were due in the window, a seller is polled
# for a while, then tried again (document 000, "health_check_webhooks": 0.8).
WEBHOOK_RATE_MIN = positive("FLIGHTDECK_WEBHOOK_RATE_MIN", 0.8)
if WEBHOOK_RATE_MIN > 1:
    raise ImproperlyConfigured(f"FLIGHTDECK_WEBHOOK_RATE_MIN is a share of 1, got {WEBHOOK_RATE_MIN}")
WEBHOOK_RATE_SAMPLE = count("FLIGHTDECK_WEBHOOK_RATE_SAMPLE", 10)
WEBHOOK_RATE_WINDOW = timedelta(hours=positive("FLIGHTDECK_WEBHOOK_RATE_WINDOW_H", 24))
WEBHOOK_PAUSE = timedelta(hours=positive("FLIGHTDECK_WEBHOOK_PAUSE_H", 1))
# A webhook may come so long after a poll was faster ("webhook_timeout" of the document).
WEBHOOK_GRACE = timedelta(seconds=positive("FLIGHTDECK_WEBHOOK_GRACE_S", 600))
# Fewer answers than these are no ground for an estimate.
ESTIMATE_SAMPLE = count("FLIGHTDECK_ESTIMATE_SAMPLE", 5)
NOTIFICATION_KEEP = timedelta(days=positive("FLIGHTDECK_NOTIFICATION_KEEP_DAYS", 90))
# smtp+tls://user:password@host:587; without one nothing is mailed.
_mail = env.email_url("FLIGHTDECK_MAIL_URL", default="dummymail://")
EMAIL_BACKEND = _mail["EMAIL_BACKEND"]
EMAIL_HOST, EMAIL_PORT = _mail["EMAIL_HOST"] or "localhost", _mail["EMAIL_PORT"] or 25
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = _mail["EMAIL_HOST_USER"] or "", _mail["EMAIL_HOST_PASSWORD"] or ""
EMAIL_USE_TLS, EMAIL_USE_SSL = _mail.get("EMAIL_USE_TLS", False), _mail.get("EMAIL_USE_SSL", False)
EMAIL_FILE_PATH = _mail["EMAIL_FILE_PATH"] or None
EMAIL_TIMEOUT = 10
MAIL_FROM = env.str("FLIGHTDECK_MAIL_FROM", "").strip()

# --- assistant ----------------------------------------------------------------------------------
# An OpenAI-compatible endpoint. Without one the built-in planner answers, and no text leaves the house.
ASSISTANT_URL = web_address("FLIGHTDECK_ASSISTANT_URL", "") if env.str("FLIGHTDECK_ASSISTANT_URL", "") else ""
ASSISTANT_KEY = env.str("FLIGHTDECK_ASSISTANT_KEY", "").strip()
ASSISTANT_MODELS = {
    "planner": env.str("FLIGHTDECK_ASSISTANT_PLANNER_MODEL", "").strip(),
    "answerer": env.str("FLIGHTDECK_ASSISTANT_ANSWERER_MODEL", "").strip(),
}
# Asked after two errors; empty: no third attempt.
ASSISTANT_FALLBACK_MODEL = env.str("FLIGHTDECK_ASSISTANT_FALLBACK_MODEL", "").strip()
if ASSISTANT_URL and not all(ASSISTANT_MODELS.values()):
    raise ImproperlyConfigured(
        "FLIGHTDECK_ASSISTANT_URL needs FLIGHTDECK_ASSISTANT_PLANNER_MODEL and "
        "FLIGHTDECK_ASSISTANT_ANSWERER_MODEL"
    )
ASSISTANT_TIMEOUT_S = positive("FLIGHTDECK_ASSISTANT_TIMEOUT_S", 60, most=600)
ASSISTANT_RETRY_TIMEOUT_S = positive("FLIGHTDECK_ASSISTANT_RETRY_TIMEOUT_S", 30, most=600)
ASSISTANT_LEASE_S = positive("FLIGHTDECK_ASSISTANT_LEASE_S", 15)  # a killed process's turns go on after that
ASSISTANT_TURNS = count("FLIGHTDECK_ASSISTANT_TURNS", 50, most=1000)  # at a time, in each process
ASSISTANT_IDLE = timedelta(
    hours=positive("FLIGHTDECK_ASSISTANT_IDLE_HOURS", 24)
)  # then a session is archived
# Where spans are exported to (OTLP over HTTP); empty: nowhere.
OTLP_ENDPOINT = web_address("FLIGHTDECK_OTLP_ENDPOINT", "") if env.str("FLIGHTDECK_OTLP_ENDPOINT", "") else ""

# --- logs ---------------------------------------------------------------------------------------
LOGGING = logs.logging_config(env.str("FLIGHTDECK_LOG_LEVEL", "INFO"))
logs.configure()
