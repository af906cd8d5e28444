/**
 * Generated from the schemas that validate the settings; do not edit. To generate it again:
 * `npm test -- test/project/schemas.test.ts -u`.
 *
 * The settings as they are written, in a settings file or in the props of a construct.
 */

import type { JsonObject } from '../core/model.ts';

/** The content of a settings file. */
export interface SettingsFile {
  /** The address or path of this schema, for editors. */
  readonly $schema?: string | undefined;
  /**
   * The name of the CloudFormation stack.
   *
   * @default - `ReportExporter`, or the ID of the stack in a CDK app
   * @example 'ReportExporter-prod'
   */
  readonly stackName?: string | undefined;
  /** The services by name: 1 to 30 lower-case letters, digits and hyphens. */
  readonly services: Readonly<Record<string, ServiceProps>>;
  /** The exports of all services. */
  readonly exports: readonly ExportProps[];
  /** The bucket for pages and manifests. */
  readonly bucket?: BucketProps | undefined;
  /**
   * The customer managed KMS key of bucket, table, secrets and dead-letter queues.
   *
   * @default - AWS owns or manages the keys
   * @example 'arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab'
   */
  readonly kmsKeyArn?: string | undefined;
  /** Where alarms are sent. */
  readonly alarms?: AlarmsProps | undefined;
  /**
   * How long log groups keep their logs: a period of CloudWatch Logs; 9999 for ever. Unit: days.
   *
   * @default 90
   */
  readonly logRetentionDays?: 1 | 3 | 5 | 7 | 14 | 30 | 60 | 90 | 120 | 150 | 180 | 365 | 400 | 545 | 731 | 1096 | 1827 | 2192 | 2557 | 2922 | 3288 | 3653 | 9999 | undefined;
  /**
   * The VPC of all functions.
   *
   * @default - they run in none
   * @see `docs/aws.md#a-vpc`
   */
  readonly network?: NetworkProps | undefined;
}

/** The address and the limits of a service. */
export interface ServiceProps {
  /**
   * The address: https, or http to the loopback interface.
   *
   * @example 'https://reports.example.com'
   */
  readonly baseUrl: string;
  /**
   * The vendor's part of the header names `X-…-API-KEY` and `X-…-CURSOR`.
   *
   * @default 'SERVICE'
   * @example 'ACME'
   */
  readonly vendor?: string | undefined;
  /**
   * The headers with the secret: `{secret}`, or a field of its JSON, `{secret.apiKey}`.
   *
   * @default - the header of `vendor` with `{secret}`
   * @example {'X-ACME-API-KEY':'{secret.apiKey}','X-Gateway-Key':'{secret.gateway}'}
   */
  readonly send?: Readonly<Record<string, string>> | undefined;
  /**
   * Where a request carries the cursor.
   *
   * @default 'query'
   */
  readonly cursorIn?: 'query' | 'body' | undefined;
  /**
   * Whether responses may be in gzip. With false, a compressed page is refused.
   *
   * @default true
   * @see `docs/service-contract.md#23-export-response`
   */
  readonly compression?: boolean | undefined;
  /**
   * The time to connect, at most P1D. An ISO 8601 duration.
   *
   * @default 'PT10S'
   */
  readonly connectTimeout?: string | undefined;
  /**
   * The time from the request to the response headers, at most P1D. An ISO 8601 duration.
   *
   * @default 'PT1M'
   */
  readonly headersTimeout?: string | undefined;
  /**
   * The time between two parts of the body, at most P1D. An ISO 8601 duration.
   *
   * @default 'PT30S'
   */
  readonly bodyTimeout?: string | undefined;
  /**
   * The time for a whole request, at most P1D. An ISO 8601 duration.
   *
   * @default 'PT4M'
   */
  readonly totalTimeout?: string | undefined;
  /**
   * The maximum size of a page. Unit: bytes.
   *
   * @default 268435456
   */
  readonly maxPageBytes?: number | undefined;
  /**
   * How many of its pages are requested at the same time; on this machine, by each process. Unit: pages.
   *
   * @default - there is no limit
   * @see `docs/aws.md#politeness`
   */
  readonly maxConcurrentPages?: number | undefined;
  /**
   * The most requests in a period, over all exports; on this machine, of each directory.
   *
   * @default - there is no limit
   * @see `docs/aws.md#politeness`
   */
  readonly rate?: RateProps | undefined;
  /**
   * The condition of the filter that excludes a date and later ones. Slices, a lag and bounded runs need it.
   *
   * @example 'date.lt'
   * @see `docs/parallel-and-past.md#requirements`
   */
  readonly filterUntil?: string | undefined;
  /**
   * The root element of every page, for XML: `reports`, or `{namespace}reports`, without a prefix.
   *
   * @default - that of earlier pages and runs
   * @example 'reports'
   * @see `docs/runbook.md#contracterror`
   */
  readonly rootElement?: string | undefined;
  /**
   * The description of another API: what its exports have in common.
   *
   * @default - the contract of the Report Export Service
   * @see `docs/apis.md`
   */
  readonly api?: ApiProps | undefined;
  /**
   * The HTTP proxy (http or https) in front of the service, without credentials.
   *
   * @example 'http://proxy.example.com:3128'
   * @see `docs/aws.md#a-proxy`
   */
  readonly proxyUrl?: string | undefined;
  /**
   * On AWS: the name or complete ARN of a secret with the JSON fields `username` and `password`.
   *
   * @example 'acme/proxy'
   * @see `docs/aws.md#a-proxy`
   */
  readonly proxyCredentialsSecret?: string | undefined;
  /**
   * Certificates of the connection to the service.
   *
   * @see `docs/aws.md#a-private-ca`
   */
  readonly tls?: TlsProps | undefined;
  /**
   * Further headers of every request, at most 4096 bytes. They must not be secret.
   *
   * @example {'X-Tenant':'acme'}
   */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /**
   * The header `User-Agent` of every request, at most 256 characters.
   *
   * @default 'report-exporter'
   * @example 'report-exporter (team-finance@example.com)'
   */
  readonly userAgent?: string | undefined;
  /** The secret on AWS that `send` or `api.auth` needs. */
  readonly apiKeySecret?: ApiKeySecretProps | undefined;
  /**
   * The environment variable with the secret, for runs on this machine.
   *
   * @default 'REPORT_EXPORT_API_KEY'
   * @example 'ACME_API_KEY'
   */
  readonly apiKeyEnv?: string | undefined;
  /**
   * The memory of ExportPage. CPU is in proportion to it. Unit: MiB.
   *
   * @default 512
   * @example 1024
   */
  readonly memoryMebibytes?: number | undefined;
}

/** The most requests in a period, over all exports; on this machine, of each directory. */
export interface RateProps {
  /**
   * The most requests in a period. Unit: requests.
   *
   * @example 100
   */
  readonly requests: number;
  /**
   * The length of a period, from PT1S to P1D. An ISO 8601 duration.
   *
   * @example 'PT1M'
   */
  readonly per: string;
  /**
   * How many requests may be sent at once, no more than `requests`. The others are spread evenly over the period. Unit:
   * requests.
   *
   * @default 1
   * @example 10
   */
  readonly burst?: number | undefined;
}

/** The description of another API: what its exports have in common. */
export interface ApiProps {
  /** What every request is. */
  readonly request?: ApiRequestProps | undefined;
  /**
   * How `{since}` and `{until}` are written: `iso` is `2026-11-20T02:00:00Z`, `iso-ms` has milliseconds, `epoch` and
   * `epoch-ms` count from 1970.
   *
   * @example {'form':'yyyy-MM-dd HH:mm','zone':'Europe/Berlin'}
   * @see `docs/apis.md#dates`
   */
  readonly dates?: 'iso' | 'iso-ms' | 'epoch' | 'epoch-ms' | 'date' | ApiDatesProps | null | undefined;
  /** How requests are authenticated. */
  readonly auth: AuthProps;
  /**
   * A report job, whose result the pages are.
   *
   * @see `docs/apis.md#jobs`
   */
  readonly job?: ApiJobProps | null | undefined;
  /** Where the next page is, and how it is requested. */
  readonly next?: ApiNextProps | null | undefined;
  /**
   * What only the last page says.
   *
   * @default - the last page has no next page
   * @example {'at':'/has_more','is':false}
   */
  readonly last?: ConditionProps | readonly ConditionProps[] | null | undefined;
  /** What a page is. */
  readonly page?: ApiPageProps | undefined;
  /** What other responses say. */
  readonly when?: ApiWhenProps | undefined;
}

/** How requests are authenticated. */
export type AuthProps = AuthNoneProps | AuthKeyProps | AuthBasicProps | AuthBearerProps | AuthOauth2Props | AuthJwtProps | AuthLoginProps;

/** How requests are authenticated. */
export interface AuthNoneProps {
  /**
   * `key`, `bearer` and `basic` send the secret itself; `oauth2`, `jwt` and `login` exchange it for tokens.
   *
   * @see `docs/apis.md#authentication`
   */
  readonly kind: 'none';
}

/** How requests are authenticated. */
export interface AuthKeyProps {
  /**
   * `key`, `bearer` and `basic` send the secret itself; `oauth2`, `jwt` and `login` exchange it for tokens.
   *
   * @see `docs/apis.md#authentication`
   */
  readonly kind: 'key';
  /**
   * The headers with the credentials: `{secret}`, a field of its JSON (`{secret.app}`), or `{token}`.
   *
   * @default - none
   * @example {'DD-API-KEY':'{secret.api}','DD-APPLICATION-KEY':'{secret.app}'}
   */
  readonly send?: Readonly<Record<string, string>> | undefined;
  /**
   * The parameters of the URL with the credentials, if the API takes no header: as in `send`. The vendor may log them.
   *
   * @example {'api_key':'{secret}'}
   */
  readonly query?: Readonly<Record<string, string>> | undefined;
}

/** How requests are authenticated. */
export interface AuthBasicProps {
  /**
   * `key`, `bearer` and `basic` send the secret itself; `oauth2`, `jwt` and `login` exchange it for tokens.
   *
   * @see `docs/apis.md#authentication`
   */
  readonly kind: 'basic';
  /**
   * The headers with the credentials: `{secret}`, a field of its JSON (`{secret.app}`), or `{token}`.
   *
   * @default '{"Authorization":"Basic {token}"}'
   * @example {'DD-API-KEY':'{secret.api}','DD-APPLICATION-KEY':'{secret.app}'}
   */
  readonly send?: Readonly<Record<string, string>> | undefined;
}

/** How requests are authenticated. */
export interface AuthBearerProps {
  /**
   * `key`, `bearer` and `basic` send the secret itself; `oauth2`, `jwt` and `login` exchange it for tokens.
   *
   * @see `docs/apis.md#authentication`
   */
  readonly kind: 'bearer';
  /**
   * The headers with the credentials: `{secret}`, a field of its JSON (`{secret.app}`), or `{token}`.
   *
   * @default '{"Authorization":"Bearer {secret}"}'
   * @example {'DD-API-KEY':'{secret.api}','DD-APPLICATION-KEY':'{secret.app}'}
   */
  readonly send?: Readonly<Record<string, string>> | undefined;
}

/** How requests are authenticated. */
export interface AuthOauth2Props {
  /**
   * `key`, `bearer` and `basic` send the secret itself; `oauth2`, `jwt` and `login` exchange it for tokens.
   *
   * @see `docs/apis.md#authentication`
   */
  readonly kind: 'oauth2';
  /**
   * Where tokens are requested.
   *
   * @example 'https://login.example.com/oauth2/token'
   */
  readonly tokenUrl: string;
  /**
   * The ID of the client.
   *
   * @example 'report-exporter'
   */
  readonly clientId: string;
  /**
   * What is exchanged for a token.
   *
   * @default 'client_credentials'
   * @see `docs/procedures.md#refresh-tokens`
   */
  readonly grant?: 'client_credentials' | 'refresh_token' | undefined;
  /**
   * How the client proves who it is: by HTTP Basic, in the body, by a signed assertion, or not at all.
   *
   * @default 'basic'
   */
  readonly clientAuthentication?: 'basic' | 'body' | 'private_key_jwt' | 'none' | undefined;
  /**
   * How the assertion is signed.
   *
   * @default 'RS256'
   */
  readonly algorithm?: 'RS256' | 'PS256' | 'ES256' | undefined;
  /**
   * The ID of the key (`kid`).
   *
   * @default - none
   */
  readonly keyId?: string | undefined;
  /**
   * How the request for a token is sent.
   *
   * @default - as a `form`
   */
  readonly encoding?: 'form' | 'json' | undefined;
  /**
   * The scopes of the tokens, separated by spaces.
   *
   * @default - those that the server chooses
   * @example 'reports.read'
   */
  readonly scope?: string | undefined;
  /**
   * Further fields of the request for a token. They must not be secret.
   *
   * @example {'audience':'https://api.example.com'}
   */
  readonly parameters?: Readonly<Record<string, string>> | undefined;
  /**
   * The headers with the credentials: `{secret}`, a field of its JSON (`{secret.app}`), or `{token}`.
   *
   * @default '{"Authorization":"Bearer {token}"}'
   * @example {'DD-API-KEY':'{secret.api}','DD-APPLICATION-KEY':'{secret.app}'}
   */
  readonly send?: Readonly<Record<string, string>> | undefined;
}

/** How requests are authenticated. */
export interface AuthJwtProps {
  /**
   * `key`, `bearer` and `basic` send the secret itself; `oauth2`, `jwt` and `login` exchange it for tokens.
   *
   * @see `docs/apis.md#authentication`
   */
  readonly kind: 'jwt';
  /**
   * Where tokens are requested.
   *
   * @default - the assertion itself is the token
   * @example 'https://login.example.com/oauth2/token'
   */
  readonly tokenUrl?: string | undefined;
  /**
   * The claim `iss`: who signs.
   *
   * @example 'exporter@project.iam.gserviceaccount.com'
   */
  readonly issuer: string;
  /**
   * The claim `sub`: the user in whose name.
   *
   * @default - none
   */
  readonly subject?: string | undefined;
  /**
   * The claim `aud`.
   *
   * @default 'tokenUrl'
   */
  readonly audience?: string | undefined;
  /**
   * How the assertion is signed.
   *
   * @default 'RS256'
   */
  readonly algorithm?: 'RS256' | 'PS256' | 'ES256' | undefined;
  /**
   * The ID of the key (`kid`).
   *
   * @default - none
   */
  readonly keyId?: string | undefined;
  /**
   * The scopes of the tokens, separated by spaces.
   *
   * @default - those that the server chooses
   * @example 'reports.read'
   */
  readonly scope?: string | undefined;
  /**
   * Further fields of the request for a token. They must not be secret.
   *
   * @example {'audience':'https://api.example.com'}
   */
  readonly parameters?: Readonly<Record<string, string>> | undefined;
  /**
   * The headers with the credentials: `{secret}`, a field of its JSON (`{secret.app}`), or `{token}`.
   *
   * @default '{"Authorization":"Bearer {token}"}'
   * @example {'DD-API-KEY':'{secret.api}','DD-APPLICATION-KEY':'{secret.app}'}
   */
  readonly send?: Readonly<Record<string, string>> | undefined;
}

/** How requests are authenticated. */
export interface AuthLoginProps {
  /**
   * `key`, `bearer` and `basic` send the secret itself; `oauth2`, `jwt` and `login` exchange it for tokens.
   *
   * @see `docs/apis.md#authentication`
   */
  readonly kind: 'login';
  /**
   * The path of the request for a token, below `baseUrl`: a POST, or a GET without `body` and `form`.
   *
   * @example '/auth'
   */
  readonly path?: string | undefined;
  /**
   * In place of `path`: the URL of this request to another host.
   *
   * @example 'https://login.example.com/token'
   */
  readonly url?: string | undefined;
  /**
   * Its JSON body, with `{secret}` or fields of its JSON.
   *
   * @example {'user':'{secret.user}','password':'{secret.password}'}
   */
  readonly body?: JsonObject | undefined;
  /**
   * In place of `body`: the fields of a form.
   *
   * @example {'user':'{secret.user}','password':'{secret.password}'}
   */
  readonly form?: Readonly<Record<string, string>> | undefined;
  /**
   * Its headers, with `{secret}` or fields of its JSON.
   *
   * @example {'X-Api-Key':'{secret}'}
   */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /**
   * Where the response has the token.
   *
   * @example '/access_token'
   */
  readonly token: string;
  /**
   * Where the response has the seconds until it expires, or the instant.
   *
   * @default - the token is used until it is rejected
   * @example '/expires_in'
   */
  readonly expires?: string | undefined;
  /**
   * The headers with the credentials: `{secret}`, a field of its JSON (`{secret.app}`), or `{token}`.
   *
   * @default '{"Authorization":"Bearer {token}"}'
   * @example {'DD-API-KEY':'{secret.api}','DD-APPLICATION-KEY':'{secret.app}'}
   */
  readonly send?: Readonly<Record<string, string>> | undefined;
}

/** Certificates of the connection to the service. */
export interface TlsProps {
  /**
   * The only trusted certificate authorities: PEM text, or the path of a PEM file, relative to the settings file.
   *
   * @default - the public ones
   * @example 'certificates/ca.pem'
   */
  readonly ca?: string | undefined;
  /**
   * On AWS: the name or complete ARN of a secret with the JSON fields `cert`, `key` and, for an encrypted key,
   * `passphrase`.
   *
   * @example 'acme/client-certificate'
   */
  readonly clientCertificateSecret?: string | undefined;
  /**
   * On this machine: the PEM file of the client certificate, relative to the settings file.
   *
   * @example 'certificates/client.pem'
   */
  readonly clientCertificate?: string | undefined;
  /**
   * On this machine: the PEM file of its key.
   *
   * @example 'certificates/client.key'
   */
  readonly clientKey?: string | undefined;
  /**
   * On this machine: the environment variable with the passphrase of the key.
   *
   * @example 'ACME_KEY_PASSPHRASE'
   */
  readonly clientKeyPassphraseEnv?: string | undefined;
}

/** The secret on AWS that `send` or `api.auth` needs. */
export interface ApiKeySecretProps {
  /**
   * The name or complete ARN of an existing secret.
   *
   * @default - one is created
   * @example 'acme/api-key'
   */
  readonly existing?: string | undefined;
}

/** What to export, from where, and when. */
export interface ExportProps {
  /**
   * 1 to 40 letters, digits, hyphens and underscores. With another name, the export begins from the start.
   *
   * @example 'nightly'
   */
  readonly name: string;
  /** Where the runs start. */
  readonly since?: SinceProps | undefined;
  /**
   * How a run is cut by the dates of its reports. Needs `filterUntil` of the service, or `{until}` in its `api`.
   *
   * @see `docs/parallel-and-past.md#slices`
   */
  readonly slices?: SlicesProps | undefined;
  /**
   * Parents of the reports, each with requests of its own that have `{parent}`: values, or the reports of another
   * export.
   *
   * @see `docs/apis.md#parents`
   */
  readonly parents?: ParentsProps | undefined;
  /**
   * Further fields of the filter beside `date.gte`: at most 64 KiB of JSON and 32 levels.
   *
   * @default {}
   * @example {'type':'daily'}
   * @see `docs/service-contract.md#21-export-request`
   */
  readonly filter?: JsonObject | undefined;
  /**
   * The format of the reports. Only XML is validated.
   *
   * @default 'XML'
   */
  readonly format?: string | undefined;
  /**
   * The packaging of the reports.
   *
   * @default 'NONE'
   */
  readonly container?: string | undefined;
  /**
   * Reports per page, at most 10; with `api`, the value of `{size}`. Unit: reports.
   *
   * @default - the service's default
   * @example 10
   */
  readonly size?: number | undefined;
  /**
   * Whether a run without reports is published. With false, it only moves the watermark.
   *
   * @default true
   */
  readonly publishEmptyRuns?: boolean | undefined;
  /**
   * What runs should find, except bounded ones. Reports must be counted.
   *
   * @see `docs/aws.md#expected-reports`
   */
  readonly expect?: ExpectProps | undefined;
  /**
   * A run with more pages fails. Unit: pages.
   *
   * @default - there is no limit
   * @example 100000
   */
  readonly maxPages?: number | undefined;
  /**
   * A run fails after so many pages without reports in a row. Unit: pages.
   *
   * @default 1000
   */
  readonly maxEmptyPages?: number | undefined;
  /**
   * How many iterations an execution has. Unit: iterations.
   *
   * @default 150
   */
  readonly iterationsPerExecution?: number | undefined;
  /**
   * How many pages an invocation exports at most. Unit: pages.
   *
   * @default 1
   * @see `docs/costs.md#pages`
   */
  readonly pagesPerInvocation?: number | undefined;
  /**
   * How often a run starts over, as its cursor was rejected, counted pages do not add up, or two passes differ. Unit:
   * restarts.
   *
   * @default 1
   */
  readonly maxCursorRestarts?: number | undefined;
  /**
   * The longest Retry-After that a run waits for, at most P30D. An ISO 8601 duration.
   *
   * @default 'PT6H'
   */
  readonly maxRetryAfter?: string | undefined;
  /**
   * A run fails after more waits than this without a page in between. Unit: waits.
   *
   * @default 20
   */
  readonly maxConsecutiveWaits?: number | undefined;
  /**
   * When runs start on AWS.
   *
   * @default - they are started manually
   */
  readonly schedule?: ScheduleProps | undefined;
  /**
   * The name of its service.
   *
   * @default - the only service
   * @example 'acme'
   */
  readonly service?: string | undefined;
  /**
   * What differs from the `api` of the service. `null` removes a part.
   *
   * @see `docs/apis.md`
   */
  readonly api?: ExportsApiProps | undefined;
}

/** Where the runs start. */
export interface SinceProps {
  /**
   * Where the first run starts. An ISO 8601 instant in UTC.
   *
   * @default - with the oldest report
   * @example '2026-11-01T00:00:00Z'
   */
  readonly initial?: string | undefined;
  /**
   * How far a run starts before the watermark. An ISO 8601 duration.
   *
   * @default 'PT0S'
   * @example 'PT1H'
   */
  readonly overlap?: string | undefined;
  /**
   * In place of `initial` and `overlap`: how far before its scheduled time a run starts, or at the watermark, if that
   * is earlier. An ISO 8601 duration.
   *
   * @default - runs start at the watermark
   * @example 'P2D'
   */
  readonly lookbackWindow?: string | undefined;
  /**
   * How long after its date a report may still appear: a run ends so long before it begins. An ISO 8601 duration.
   *
   * @default - a run has no upper bound
   * @example 'PT2H'
   * @see `docs/parallel-and-past.md#late-reports`
   */
  readonly lag?: string | undefined;
}

/** How a run is cut by the dates of its reports. Needs `filterUntil` of the service, or `{until}` in its `api`. */
export interface SlicesProps {
  /**
   * How many slices of a run are requested at the same time. Unit: slices.
   *
   * @default 1
   * @example 8
   */
  readonly parallel?: number | undefined;
  /**
   * How long a slice is: whole minutes; whole days if the `dates` of the API have no time, or a `zone`. An ISO 8601
   * duration.
   *
   * @default - each run chooses it
   * @example 'PT1H'
   */
  readonly length?: string | undefined;
}

/**
 * Parents of the reports, each with requests of its own that have `{parent}`: values, or the reports of another export.
 */
export interface ParentsProps {
  /**
   * The values of `{parent}` in the requests, in this order.
   *
   * @example ['open','closed']
   */
  readonly values?: readonly string[] | undefined;
  /**
   * In place of `values`: an export of the same service. Each report in its newest published run is a parent.
   *
   * @example 'repos'
   */
  readonly export?: string | undefined;
  /**
   * With `export`: where a report has the value of `{parent}`: in JSON a JSON Pointer, in XML a path below the report,
   * in CSV a column.
   *
   * @example '/full_name'
   */
  readonly id?: string | undefined;
  /**
   * With `export`: where a report has further values, by name, for `{parent.NAME}`.
   *
   * @example {'owner':'/owner/login'}
   */
  readonly also?: Readonly<Record<string, string>> | undefined;
  /**
   * With `export`: which of the reports are parents.
   *
   * @default - all are
   * @example {'at':'/archived','is':false}
   */
  readonly where?: ConditionParentsProps | readonly ConditionParentsProps[] | undefined;
  /**
   * How many parents may no longer exist, as `when.gone` of the `api` says.
   *
   * @example {'atMost':5}
   */
  readonly gone?: GoneProps | undefined;
}

/** How many parents may no longer exist, as `when.gone` of the `api` says. */
export interface GoneProps {
  /**
   * A run with more is not published. One is allowed in any case, and all of them never. Unit: %.
   *
   * @default 2
   */
  readonly atMost?: number | undefined;
}

/** What runs should find, except bounded ones. Reports must be counted. */
export interface ExpectProps {
  /**
   * A run with fewer reports fails before it is published. Unit: reports.
   *
   * @default - there is no check
   * @example 100
   */
  readonly minReports?: number | undefined;
  /**
   * How long completed runs may have no reports before the alarm NoReports. An ISO 8601 duration.
   *
   * @default - for ever
   * @example 'P2D'
   */
  readonly reportsEvery?: string | undefined;
}

/** When runs start on AWS. */
export interface ScheduleProps {
  /**
   * When runs start, as an expression of EventBridge Scheduler: `cron(0 4 * * ? *)` or `rate(6 hours)`.
   *
   * @example 'cron(0 4 * * ? *)'
   */
  readonly expression: string;
  /**
   * The IANA time zone of a cron expression.
   *
   * @default 'UTC'
   * @example 'Europe/Berlin'
   */
  readonly timeZone?: string | undefined;
  /**
   * Whether the schedule starts runs.
   *
   * @default true
   */
  readonly enabled?: boolean | undefined;
  /**
   * The maximum age of the newest completed run before the alarm NotFresh: PT10M to P7D, or P14D for a weekly export.
   * An ISO 8601 duration.
   *
   * @default 'none'
   * @example 'PT26H'
   * @see `docs/aws.md#runs-that-are-missing`
   */
  readonly freshness?: string | undefined;
}

/** The bucket for pages and manifests. */
export interface BucketProps {
  /**
   * The name of an existing bucket.
   *
   * @default - one is created
   * @example 'acme-reports'
   * @see `docs/aws.md#an-existing-bucket`
   */
  readonly existing?: string | undefined;
  /**
   * The prefix of every key, ending with a slash. The name of the service follows: `<prefix><service>/`.
   *
   * @default ''
   * @example 'exports/'
   */
  readonly prefix?: string | undefined;
  /**
   * How the pages of new runs are compressed: each is a gzip file.
   *
   * @default - they are stored as they are
   * @see `docs/consumers.md#compressed-pages`
   */
  readonly compression?: 'gzip' | undefined;
  /**
   * The customer managed KMS key that encrypts every object.
   *
   * @default - the common `kmsKeyArn`
   * @example 'arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab'
   */
  readonly kmsKeyArn?: string | undefined;
}

/** Where alarms are sent. */
export interface AlarmsProps {
  /**
   * An address that is subscribed to the alarm topic.
   *
   * @example 'operators@example.com'
   * @see `docs/aws.md#alarms-that-arrive`
   */
  readonly email?: string | undefined;
  /**
   * The ARN of an existing SNS topic for alarms.
   *
   * @default - one is created
   * @example 'arn:aws:sns:eu-central-1:111122223333:alarms'
   */
  readonly existingTopicArn?: string | undefined;
  /**
   * The address of docs/runbook.md, for the descriptions of alarms.
   *
   * @default - its path in the package
   * @example 'https://wiki.example.com/report-exporter'
   */
  readonly runbookUrl?: string | undefined;
}

/** The VPC of all functions. */
export interface NetworkProps {
  /**
   * The ID of the VPC.
   *
   * @example 'vpc-0abc1234'
   */
  readonly vpcId: string;
  /**
   * Private subnets with a route to the service.
   *
   * @example ['subnet-0abc1234']
   */
  readonly subnetIds: readonly string[];
  /**
   * The security groups of the functions.
   *
   * @default - one is created for each service
   * @example ['sg-0abc1234']
   */
  readonly securityGroupIds?: readonly string[] | undefined;
}

/** The part `api.request` of the settings. */
export interface ApiRequestProps {
  /**
   * The method.
   *
   * @default 'GET'
   */
  readonly method?: 'GET' | 'POST' | null | undefined;
  /**
   * The path, after that of `baseUrl`. Its query is sent with every request, and may repeat a parameter.
   *
   * @example '/api/v1/logs'
   */
  readonly path?: string | null | undefined;
  /**
   * The query, by name. A parameter whose placeholder has no value is left out.
   *
   * @example {'since':'{since}','until':'{until}','limit':'{size}'}
   */
  readonly query?: Readonly<Record<string, string>> | null | undefined;
  /**
   * Headers, by name.
   *
   * @default - `Accept` has the content types of pages
   * @example {'Accept':'application/json; version=2'}
   */
  readonly headers?: Readonly<Record<string, string>> | null | undefined;
  /**
   * The JSON body of a POST. A field whose placeholder has no value is left out.
   *
   * @example {'from':'{since}','type':'{filter.type}'}
   */
  readonly body?: JsonObject | null | undefined;
  /**
   * In place of `body`: the fields of a form, by name.
   *
   * @example {'oldest':'{since}','latest':'{until}'}
   */
  readonly form?: Readonly<Record<string, string>> | null | undefined;
}

/** The part `api.dates` of the settings. */
export interface ApiDatesProps {
  /**
   * A pattern of `yyyy`, `MM`, `dd`, `HH`, `mm`, `ss` and `SSS`, other letters in single quotes; or `date`, which is
   * `yyyy-MM-dd`.
   *
   * @example 'yyyy-MM-dd HH:mm'
   */
  readonly form: string;
  /**
   * The time zone in which the API reads dates, by its IANA name. Slices and bounded runs need it.
   *
   * @default - requests begin 12 hours earlier and end 14 hours later
   * @example 'America/Los_Angeles'
   */
  readonly zone?: string | undefined;
}

/** The part `api.job` of the settings. */
export interface ApiJobProps {
  /** The request that creates the job. */
  readonly create: CreateProps;
  /**
   * Where its response has the ID of the job, for `{job}`.
   *
   * @example '/reportId'
   */
  readonly id: string | ApiJobIdProps | readonly ApiJobIdProps[];
  /**
   * The request that asks for the job.
   *
   * @default - there is nothing to wait for
   * @example {'path':'/reports/{job}','every':'PT30S'}
   */
  readonly poll?: PollProps | undefined;
  /** The request that starts the job, once it is created. */
  readonly start?: StartProps | undefined;
  /** What responses to polls say. Asked in the order of this table. */
  readonly when?: WhenProps | undefined;
  /**
   * Where the files of the result are, each a page.
   *
   * @default - the result has pages like any list
   */
  readonly result?: ResultProps | undefined;
}

/** The request that creates the job. */
export interface CreateProps {
  /**
   * The method.
   *
   * @default 'POST'
   */
  readonly method?: 'GET' | 'POST' | undefined;
  /**
   * The path, after that of `baseUrl`. Its query is sent with every request, and may repeat a parameter.
   *
   * @example '/api/v1/logs'
   */
  readonly path: string;
  /**
   * The query, by name. A parameter whose placeholder has no value is left out.
   *
   * @example {'since':'{since}','until':'{until}','limit':'{size}'}
   */
  readonly query?: Readonly<Record<string, string>> | undefined;
  /**
   * Headers, by name.
   *
   * @default - `Accept` has the content types of pages
   * @example {'Accept':'application/json; version=2'}
   */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /**
   * The JSON body of a POST. A field whose placeholder has no value is left out.
   *
   * @example {'from':'{since}','type':'{filter.type}'}
   */
  readonly body?: JsonObject | undefined;
  /**
   * In place of `body`: the fields of a form, by name.
   *
   * @example {'oldest':'{since}','latest':'{until}'}
   */
  readonly form?: Readonly<Record<string, string>> | undefined;
}

/** The request that asks for the job. */
export interface PollProps {
  /**
   * The method.
   *
   * @default 'GET'
   */
  readonly method?: 'GET' | 'POST' | undefined;
  /**
   * The path, after that of `baseUrl`. Its query is sent with every request, and may repeat a parameter.
   *
   * @example '/api/v1/logs'
   */
  readonly path: string;
  /**
   * The query, by name. A parameter whose placeholder has no value is left out.
   *
   * @example {'since':'{since}','until':'{until}','limit':'{size}'}
   */
  readonly query?: Readonly<Record<string, string>> | undefined;
  /**
   * Headers, by name.
   *
   * @default - `Accept` has the content types of pages
   * @example {'Accept':'application/json; version=2'}
   */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /**
   * The JSON body of a POST. A field whose placeholder has no value is left out.
   *
   * @example {'from':'{since}','type':'{filter.type}'}
   */
  readonly body?: JsonObject | undefined;
  /**
   * In place of `body`: the fields of a form, by name.
   *
   * @example {'oldest':'{since}','latest':'{until}'}
   */
  readonly form?: Readonly<Record<string, string>> | undefined;
  /**
   * Where the response that says `done` has another ID for `{job}`.
   *
   * @example '/response/reportResult'
   */
  readonly id?: string | undefined;
  /**
   * How long to wait between two polls.
   *
   * @default 'PT30S'
   * @example 'PT1M'
   */
  readonly every?: string | undefined;
  /**
   * How long a job may take before the run fails.
   *
   * @default 'PT6H'
   * @example 'P1D'
   */
  readonly within?: string | undefined;
}

/** The request that starts the job, once it is created. */
export interface StartProps {
  /**
   * What the poll says.
   *
   * @example {'at':'/status','is':'Created'}
   */
  readonly when: ConditionProps | readonly ConditionProps[];
  /** The request that starts the job. */
  readonly request: RequestProps;
}

/** The request that starts the job. */
export interface RequestProps {
  /**
   * The method.
   *
   * @default 'POST'
   */
  readonly method?: 'GET' | 'POST' | undefined;
  /**
   * The path, after that of `baseUrl`. Its query is sent with every request, and may repeat a parameter.
   *
   * @example '/api/v1/logs'
   */
  readonly path: string;
  /**
   * The query, by name. A parameter whose placeholder has no value is left out.
   *
   * @example {'since':'{since}','until':'{until}','limit':'{size}'}
   */
  readonly query?: Readonly<Record<string, string>> | undefined;
  /**
   * Headers, by name.
   *
   * @default - `Accept` has the content types of pages
   * @example {'Accept':'application/json; version=2'}
   */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /**
   * The JSON body of a POST. A field whose placeholder has no value is left out.
   *
   * @example {'from':'{since}','type':'{filter.type}'}
   */
  readonly body?: JsonObject | undefined;
  /**
   * In place of `body`: the fields of a form, by name.
   *
   * @example {'oldest':'{since}','latest':'{until}'}
   */
  readonly form?: Readonly<Record<string, string>> | undefined;
}

/** What responses to polls say. Asked in the order of this table. */
export interface WhenProps {
  /**
   * The job is not over. It is polled again.
   *
   * @example {'at':'/status','is':['IN_QUEUE','IN_PROGRESS']}
   */
  readonly waiting?: ConditionProps | readonly ConditionProps[] | undefined;
  /**
   * The job has failed, and so does the run.
   *
   * @example {'at':'/status','is':'FATAL'}
   */
  readonly failed?: ConditionProps | readonly ConditionProps[] | undefined;
  /**
   * The job is over, and there are no reports.
   *
   * @example {'at':'/status','is':'CANCELLED'}
   */
  readonly empty?: ConditionProps | readonly ConditionProps[] | undefined;
  /**
   * The job is over, and its result can be requested.
   *
   * @example {'at':'/status','is':'DONE'}
   */
  readonly done?: ConditionProps | readonly ConditionProps[] | undefined;
}

/** Where the files of the result are, each a page. */
export interface ResultProps {
  /**
   * The request after the last poll. With `{item}`, its response is a file of the result; otherwise `at` is in it.
   *
   * @example {'path':'/documents/{poll:/documentId}'}
   */
  readonly request?: RequestProps | undefined;
  /** The path of the URL of the file, or of its ID for `{item}`. `*` stands for each item of a list. */
  readonly at: string;
  /**
   * The hosts of the files, which get no credentials.
   *
   * @default - the origin of `baseUrl`, which gets them
   * @example ['*.s3.eu-west-1.amazonaws.com']
   */
  readonly hosts?: readonly string[] | undefined;
  /** The files may be in gzip. */
  readonly compression?: 'gzip' | undefined;
}

/** The request after the last poll. With `{item}`, its response is a file of the result; otherwise `at` is in it. */
export interface RequestProps {
  /**
   * The method.
   *
   * @default 'GET'
   */
  readonly method?: 'GET' | 'POST' | undefined;
  /**
   * The path, after that of `baseUrl`. Its query is sent with every request, and may repeat a parameter.
   *
   * @example '/api/v1/logs'
   */
  readonly path: string;
  /**
   * The query, by name. A parameter whose placeholder has no value is left out.
   *
   * @example {'since':'{since}','until':'{until}','limit':'{size}'}
   */
  readonly query?: Readonly<Record<string, string>> | undefined;
  /**
   * Headers, by name.
   *
   * @default - `Accept` has the content types of pages
   * @example {'Accept':'application/json; version=2'}
   */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /**
   * The JSON body of a POST. A field whose placeholder has no value is left out.
   *
   * @example {'from':'{since}','type':'{filter.type}'}
   */
  readonly body?: JsonObject | undefined;
  /**
   * In place of `body`: the fields of a form, by name.
   *
   * @example {'oldest':'{since}','latest':'{until}'}
   */
  readonly form?: Readonly<Record<string, string>> | undefined;
}

/** The part `api.job.id` of the settings. */
export interface ApiJobIdProps {
  /**
   * The path of a value in the body.
   *
   * @example '/detail'
   */
  readonly at?: string | undefined;
  /**
   * In place of `at`: the name of a header.
   *
   * @example 'Content-Location'
   */
  readonly header?: string | undefined;
  /**
   * The ID is what follows this text, where it occurs last in the value.
   *
   * @example '/jobs/'
   */
  readonly after?: string | undefined;
  /**
   * The status of the response.
   *
   * @default - any from 200 to 299
   * @example 425
   */
  readonly status?: number | undefined;
}

/** The part `condition` of the settings. */
export interface ConditionProps {
  /**
   * The path of a value in the body. An empty text is the whole document.
   *
   * @example '/has_more'
   */
  readonly at?: string | undefined;
  /**
   * The name of a header.
   *
   * @example 'X-More'
   */
  readonly header?: string | undefined;
  /**
   * The name of a parameter of the link to the next page.
   *
   * @example 'results'
   */
  readonly parameter?: string | undefined;
  /** In place of these: the page has no reports. */
  readonly reports?: 0 | undefined;
  /**
   * The value there, or any of a list. null is nothing, and `{cursor}` is the cursor of the request.
   *
   * @default - anything but nothing
   * @example false
   */
  readonly is?: string | number | boolean | null | readonly (string | number | boolean | null)[] | undefined;
  /**
   * In place of `is`: something else is there.
   *
   * @example 0
   */
  readonly not?: string | number | boolean | null | readonly (string | number | boolean | null)[] | undefined;
  /**
   * The status of the response, or a list.
   *
   * @default - that of a page
   * @example 403
   */
  readonly status?: number | readonly number[] | undefined;
}

/** The part `api.next` of the settings. */
export type ApiNextProps = ApiNextHeaderProps | ApiNextLinkProps | ApiNextBodyProps | ApiNextReportProps | ApiNextCountProps | ApiNextNoneProps;

/** The part `api.next` of the settings. */
export interface ApiNextHeaderProps {
  /** Where a response has the next page. With `count`, pages are counted; with `none`, there is only one. */
  readonly from: 'header';
  /**
   * The name of the header.
   *
   * @example 'X-Cursor'
   */
  readonly at: string;
  /**
   * Where the next request sends the cursor; or `url`, if it is the URL of the next page, with the origin of the
   * service.
   *
   * @default - `request` has `{cursor}`
   * @example {'query':'cursor'}
   */
  readonly to?: 'url' | ApiNextToProps | undefined;
  /**
   * Fields that further requests have in place of those of `request`. `{cursor}` in them takes the place of `to`. For a
   * POST whose next page is a URL, `method` is required.
   *
   * @example {'path':'/v2/items/continue','body':{'cursor':'{cursor}'}}
   */
  readonly request?: ApiNextRequestProps | undefined;
  /**
   * Whether the last page may have a next page, which is ignored.
   *
   * @default - false
   */
  readonly alsoOnLast?: boolean | undefined;
}

/** The part `api.next` of the settings. */
export interface ApiNextLinkProps {
  /** Where a response has the next page. With `count`, pages are counted; with `none`, there is only one. */
  readonly from: 'link';
  /**
   * The relation of the link to the next page.
   *
   * @default 'next'
   */
  readonly at?: string | undefined;
  /**
   * How the URL is requested: as it is (`url`), or its parameters over those of the request.
   *
   * @default 'url'
   */
  readonly to?: 'url' | ApiNextToLinkProps | undefined;
  /**
   * Fields that further requests have in place of those of `request`. `{cursor}` in them takes the place of `to`. For a
   * POST whose next page is a URL, `method` is required.
   *
   * @example {'path':'/v2/items/continue','body':{'cursor':'{cursor}'}}
   */
  readonly request?: ApiNextRequestProps | undefined;
  /**
   * Whether the last page may have a next page, which is ignored.
   *
   * @default - false
   */
  readonly alsoOnLast?: boolean | undefined;
}

/** The part `api.next` of the settings. */
export interface ApiNextBodyProps {
  /** Where a response has the next page. With `count`, pages are counted; with `none`, there is only one. */
  readonly from: 'body';
  /**
   * The path in the body: a JSON Pointer, such as `/meta/next`, or elements of XML, such as
   * `/feed/link[@rel=next]/@href`.
   *
   * @example '/meta/next'
   */
  readonly at: string;
  /**
   * Where the next request sends the cursor; or `url`, if it is the URL of the next page, with the origin of the
   * service.
   *
   * @default - `request` has `{cursor}`
   * @example {'query':'cursor'}
   */
  readonly to?: 'url' | ApiNextToProps | undefined;
  /**
   * Fields that further requests have in place of those of `request`. `{cursor}` in them takes the place of `to`. For a
   * POST whose next page is a URL, `method` is required.
   *
   * @example {'path':'/v2/items/continue','body':{'cursor':'{cursor}'}}
   */
  readonly request?: ApiNextRequestProps | undefined;
  /**
   * Whether the last page may have a next page, which is ignored.
   *
   * @default - false
   */
  readonly alsoOnLast?: boolean | undefined;
}

/** The part `api.next` of the settings. */
export interface ApiNextReportProps {
  /** Where a response has the next page. With `count`, pages are counted; with `none`, there is only one. */
  readonly from: 'report';
  /**
   * The path of a field in each report: the cursor is that of the last report of the page.
   *
   * @example '/id'
   */
  readonly at: string;
  /**
   * Where the next request sends the cursor; or `url`, if it is the URL of the next page, with the origin of the
   * service.
   *
   * @default - `request` has `{cursor}`
   * @example {'query':'cursor'}
   */
  readonly to?: 'url' | ApiNextToProps | undefined;
  /**
   * Fields that further requests have in place of those of `request`. `{cursor}` in them takes the place of `to`. For a
   * POST whose next page is a URL, `method` is required.
   *
   * @example {'path':'/v2/items/continue','body':{'cursor':'{cursor}'}}
   */
  readonly request?: ApiNextRequestProps | undefined;
}

/** The part `api.next` of the settings. */
export interface ApiNextCountProps {
  /** Where a response has the next page. With `count`, pages are counted; with `none`, there is only one. */
  readonly from: 'count';
  /**
   * Where requests send the number.
   *
   * @default - `request` has `{cursor}`
   * @example {'query':'page'}
   */
  readonly to?: ToProps | undefined;
  /**
   * The number that the first request sends.
   *
   * @default - 1; of an offset, 0
   */
  readonly first?: number | undefined;
  /**
   * What each further request adds to it: `reports`, for an offset, is how many the page had.
   *
   * @default 1
   */
  readonly step?: 1 | 'reports' | undefined;
  /**
   * Where every page has the number of all reports: a path in the body, or a header. Required without `proof`.
   *
   * @example '/total'
   */
  readonly total?: TotalProps | undefined;
  /**
   * With `total`: whether the page after the last one, which must have no reports, is requested.
   *
   * @default true
   */
  readonly confirm?: boolean | undefined;
  /** `twice`, for an API without a total: pages are requested until two passes in a row have the same reports. */
  readonly proof?: 'twice' | undefined;
  /**
   * With `proof`: where each report has its ID, or a list of such places: in JSON a path, in XML an element or
   * attribute, in CSV a column. In JSON, an empty path is the whole report.
   *
   * @example '/id'
   */
  readonly by?: string | readonly string[] | undefined;
}

/** Where requests send the number. */
export interface ToProps {
  /**
   * The name of the parameter. With `*`, the parameters of the URL of the next page, or the fields of an object,
   * replace those of the request.
   *
   * @example 'cursor'
   */
  readonly query?: string | undefined;
  /**
   * The JSON Pointer of a field of the body.
   *
   * @example '/cursor'
   */
  readonly body?: string | undefined;
  /**
   * The name of the field of `request.form`.
   *
   * @example 'cursor'
   */
  readonly form?: string | undefined;
}

/** Where every page has the number of all reports: a path in the body, or a header. Required without `proof`. */
export type TotalProps = string | TotalHeaderProps;

/** Where every page has the number of all reports: a path in the body, or a header. Required without `proof`. */
export interface TotalHeaderProps {
  /**
   * The name of the header.
   *
   * @example 'X-Total-Count'
   */
  readonly header?: string | undefined;
}

/** The part `api.next` of the settings. */
export interface ApiNextNoneProps {
  /** Where a response has the next page. With `count`, pages are counted; with `none`, there is only one. */
  readonly from: 'none';
}

/** The part `api.next.to` of the settings. */
export interface ApiNextToProps {
  /**
   * The name of the parameter. With `*`, the parameters of the URL of the next page, or the fields of an object,
   * replace those of the request.
   *
   * @example 'cursor'
   */
  readonly query?: string | undefined;
  /**
   * The name of the header.
   *
   * @example 'X-Continuation'
   */
  readonly header?: string | undefined;
  /**
   * The JSON Pointer of a field of the body.
   *
   * @example '/cursor'
   */
  readonly body?: string | undefined;
  /**
   * The name of the field of `request.form`.
   *
   * @example 'cursor'
   */
  readonly form?: string | undefined;
}

/** The part `api.next.request` of the settings. */
export interface ApiNextRequestProps {
  /**
   * The method.
   *
   * @default 'GET'
   */
  readonly method?: 'GET' | 'POST' | undefined;
  /**
   * The path, after that of `baseUrl`. Its query is sent with every request, and may repeat a parameter.
   *
   * @example '/api/v1/logs'
   */
  readonly path?: string | undefined;
  /**
   * The query, by name. A parameter whose placeholder has no value is left out.
   *
   * @example {'since':'{since}','until':'{until}','limit':'{size}'}
   */
  readonly query?: Readonly<Record<string, string>> | undefined;
  /**
   * Headers, by name.
   *
   * @default - `Accept` has the content types of pages
   * @example {'Accept':'application/json; version=2'}
   */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /**
   * The JSON body of a POST. A field whose placeholder has no value is left out.
   *
   * @example {'from':'{since}','type':'{filter.type}'}
   */
  readonly body?: JsonObject | undefined;
  /**
   * In place of `body`: the fields of a form, by name.
   *
   * @example {'oldest':'{since}','latest':'{until}'}
   */
  readonly form?: Readonly<Record<string, string>> | undefined;
}

/** The part `api.next.to.link` of the settings. */
export interface ApiNextToLinkProps {
  /** The parameters of the URL: `*`. */
  readonly query?: '*' | undefined;
}

/** The part `api.page` of the settings. */
export interface ApiPageProps {
  /** All but `bytes` are checked for completeness, and the reports of all but `zip` and `bytes` are counted. */
  readonly format?: 'xml' | 'json' | 'ndjson' | 'csv' | 'zip' | 'bytes' | null | undefined;
  /**
   * Where the reports are: in JSON, the path of a list and `/*`; in XML, a path of elements; in CSV, `/*` if the first
   * row is a report.
   *
   * @default - the child elements of the root in XML, and the rows after the first in CSV
   * @example '/data/*'
   */
  readonly reports?: string | null | undefined;
  /**
   * Whether an object in place of the list is one report, in JSON.
   *
   * @default - false
   */
  readonly single?: boolean | null | undefined;
  /**
   * The first row of every page, as it is there, in CSV.
   *
   * @default - that of earlier pages and runs
   * @example 'id,date,text'
   */
  readonly columns?: string | null | undefined;
  /**
   * The character between the fields of a row, in CSV.
   *
   * @default - a comma
   * @example ';'
   */
  readonly delimiter?: ',' | ';' | '	' | '|' | null | undefined;
  /**
   * The content types of pages.
   *
   * @default - those of the format
   * @example ['application/vnd.acme+json']
   */
  readonly types?: readonly string[] | null | undefined;
  /**
   * The statuses of pages.
   *
   * @default - 200
   * @example [200,206]
   */
  readonly status?: readonly (200 | 201 | 203 | 206)[] | null | undefined;
}

/** The part `api.when` of the settings. */
export interface ApiWhenProps {
  /**
   * As status 429: the run waits.
   *
   * @example {'at':'/errors/0/code','is':'THROTTLED'}
   */
  readonly throttled?: ConditionThrottledProps | readonly ConditionThrottledProps[] | null | undefined;
  /**
   * As status 401: the credentials are renewed once.
   *
   * @example {'at':'/code','is':190}
   */
  readonly tokenExpired?: ConditionProps | readonly ConditionProps[] | null | undefined;
  /**
   * The cursor has expired: the run starts over. Not asked on page 1.
   *
   * @example {'at':'/error','is':'expired'}
   */
  readonly cursorExpired?: ConditionProps | readonly ConditionProps[] | null | undefined;
  /**
   * The parent no longer exists: it has no pages. Asked on its first page only.
   *
   * @default - `{"status": [404, 410]}` if the parents are reports of another export
   * @example {'status':404}
   * @see `docs/apis.md#parents`
   */
  readonly gone?: ConditionProps | readonly ConditionProps[] | null | undefined;
  /**
   * An error, which is quoted. The page is refused.
   *
   * @example {'at':'/error'}
   */
  readonly error?: ConditionProps | readonly ConditionProps[] | null | undefined;
  /**
   * The page has no reports. Asked only if its list is missing or null.
   *
   * @example {'at':'/total','is':0}
   */
  readonly empty?: ConditionProps | readonly ConditionProps[] | null | undefined;
}

/** The part `condition.throttled` of the settings. */
export interface ConditionThrottledProps {
  /**
   * The path of a value in the body. An empty text is the whole document.
   *
   * @example '/has_more'
   */
  readonly at?: string | undefined;
  /**
   * The name of a header.
   *
   * @example 'X-More'
   */
  readonly header?: string | undefined;
  /**
   * The name of a parameter of the link to the next page.
   *
   * @example 'results'
   */
  readonly parameter?: string | undefined;
  /** In place of these: the page has no reports. */
  readonly reports?: 0 | undefined;
  /**
   * The value there, or any of a list. null is nothing, and `{cursor}` is the cursor of the request.
   *
   * @default - anything but nothing
   * @example false
   */
  readonly is?: string | number | boolean | null | readonly (string | number | boolean | null)[] | undefined;
  /**
   * In place of `is`: something else is there.
   *
   * @example 0
   */
  readonly not?: string | number | boolean | null | readonly (string | number | boolean | null)[] | undefined;
  /**
   * The status of the response, or a list.
   *
   * @default - that of a page
   * @example 403
   */
  readonly status?: number | readonly number[] | undefined;
  /**
   * Where the response says how long: a path or a header, with seconds, a date, or seconds since 1970.
   *
   * @default - `Retry-After`, or a delay that grows
   * @example '/retry_after'
   */
  readonly wait?: WaitProps | undefined;
}

/** Where the response says how long: a path or a header, with seconds, a date, or seconds since 1970. */
export type WaitProps = string | WaitHeaderProps;

/** Where the response says how long: a path or a header, with seconds, a date, or seconds since 1970. */
export interface WaitHeaderProps {
  /**
   * The name of the header.
   *
   * @example 'X-RateLimit-Reset'
   */
  readonly header?: string | undefined;
}

/** The part `condition.parents` of the settings. */
export interface ConditionParentsProps {
  /**
   * Where a report has a value.
   *
   * @example '/archived'
   */
  readonly at: string;
  /**
   * The value there, or any of a list. null is nothing.
   *
   * @default - anything but nothing
   * @example false
   */
  readonly is?: string | number | boolean | null | readonly (string | number | boolean | null)[] | undefined;
  /**
   * In place of `is`: something else, or nothing, is there.
   *
   * @example true
   */
  readonly not?: string | number | boolean | null | readonly (string | number | boolean | null)[] | undefined;
}

/** The part `exports.api` of the settings. */
export interface ExportsApiProps {
  /** What every request is. */
  readonly request?: ApiRequestProps | undefined;
  /**
   * How `{since}` and `{until}` are written: `iso` is `2026-11-20T02:00:00Z`, `iso-ms` has milliseconds, `epoch` and
   * `epoch-ms` count from 1970.
   *
   * @example {'form':'yyyy-MM-dd HH:mm','zone':'Europe/Berlin'}
   * @see `docs/apis.md#dates`
   */
  readonly dates?: 'iso' | 'iso-ms' | 'epoch' | 'epoch-ms' | 'date' | ApiDatesProps | null | undefined;
  /**
   * A report job, whose result the pages are.
   *
   * @see `docs/apis.md#jobs`
   */
  readonly job?: ApiJobProps | null | undefined;
  /** Where the next page is, and how it is requested. */
  readonly next?: ApiNextProps | null | undefined;
  /**
   * What only the last page says.
   *
   * @default - the last page has no next page
   * @example {'at':'/has_more','is':false}
   */
  readonly last?: ConditionProps | readonly ConditionProps[] | null | undefined;
  /** What a page is. */
  readonly page?: ApiPageProps | undefined;
  /** What other responses say. */
  readonly when?: ApiWhenProps | undefined;
}
