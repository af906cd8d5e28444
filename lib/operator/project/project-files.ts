/** The files of a new project that deploys exports: a small CDK app with the package as a dependency. */

/** What a new project is made from. */
export interface ProjectTemplate {
  /** The name in its package.json. */
  readonly name: string;
  readonly serviceName: string;
  readonly baseUrl: string;
  /** Undefined: the settings describe another API, by an example. */
  readonly vendor: string | undefined;
  /** The oldest Node.js, such as `>=22.19`. */
  readonly node: string;
  /** The versions of its packages, as in a package.json. */
  readonly versions: Readonly<Record<'report-exporter' | 'aws-cdk' | 'aws-cdk-lib' | 'constructs', string>>;
  /** The feature flags of CDK that the package is developed with. */
  readonly featureFlags: Readonly<Record<string, unknown>>;
}

/** The text of each file, by its name. */
export function projectFiles(template: ProjectTemplate): Readonly<Record<string, string>> {
  return {
    'package.json': json(packageJson(template)),
    'cdk.json': json(cdkJson(template)),
    'app.js': app,
    'report-exporter.json': json(settings(template)),
    '.gitignore': gitIgnore,
    'README.md': readme(template),
  };
}

const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;

const packageJson = ({ name, node, versions, vendor }: ProjectTemplate) => ({
  name,
  private: true,
  type: 'module',
  engines: { node },
  scripts: {
    start: `report-exporter local --settings report-exporter.json${vendor === undefined ? '' : ' --simulate'}`,
    synth: 'cdk synth --quiet',
    deploy: 'cdk deploy',
  },
  dependencies: {
    'aws-cdk-lib': versions['aws-cdk-lib'],
    constructs: versions.constructs,
    'report-exporter': versions['report-exporter'],
  },
  devDependencies: { 'aws-cdk': versions['aws-cdk'] },
});

const cdkJson = ({ featureFlags }: ProjectTemplate) => ({
  app: 'node app.js',
  context: { reportExporter: settingsFile, ...featureFlags },
});

const settingsFile = 'report-exporter.json';

/** Not written out below, where it would read as an import of this module. */
const [cdk, exporter] = [`'aws-cdk-lib'`, `'report-exporter'`];

const app = `import { App } from ${cdk};
import { ConfigurationError, ReportExporterStack } from ${exporter};

const app = new App();
try {
  new ReportExporterStack(app, 'ReportExporter', { settings: app.node.tryGetContext('reportExporter') });
} catch (error) {
  if (!(error instanceof ConfigurationError)) throw error;
  // Only what is wrong with the settings, without a stack trace.
  console.error(error.message);
  process.exitCode = 1;
}
`;

/** As the API of the example in docs/apis.md. */
const exampleApi = {
  request: { path: '/v1/events', query: { from: '{since}', to: '{until}', limit: '{size}' } },
  auth: { kind: 'bearer' },
  next: { from: 'body', at: '/paging/next', to: { query: 'cursor' } },
  page: { format: 'json', reports: '/events/*' },
};

const settings = ({ serviceName, baseUrl, vendor }: ProjectTemplate) => ({
  $schema: './node_modules/report-exporter/docs/schemas/settings.v1.schema.json',
  stackName: 'ReportExporter',
  services: { [serviceName]: vendor === undefined ? { baseUrl, api: exampleApi } : { baseUrl, vendor } },
  exports: [
    {
      name: 'nightly',
      service: serviceName,
      schedule: { expression: 'cron(0 2 * * ? *)', enabled: false, freshness: 'PT26H' },
    },
  ],
});

const gitIgnore = `node_modules
cdk.out
exports
`;

const howToSetService = `To export from the service itself, set its address and vendor in \`report-exporter.json\`, and its API key:`;

const simulating = `$ npm start                                                   # exports from a simulated service to ./exports
$ npx report-exporter status                                  # shows its runs
`;

const probing =
  '$ npx report-exporter plan --settings report-exporter.json --request    # requests two pages, and shows what it finds\n';

const howToDescribeApi = `\`api\` in \`report-exporter.json\` is an example. Replace it by what your API does:

| Field | Describes |
|---|---|
| \`request\` | path, query or JSON body. \`{since}\` is where a run starts, \`{until}\` where it ends, \`{size}\` the \`size\` of the export |
| \`auth\` | how requests are authenticated: \`header\`, \`basic\`, \`bearer\`, \`oauth2\` or \`none\` |
| \`next\` | where a response has the next page, and where the next request sends its cursor |
| \`page\` | the format of a page, and where its reports are |

[Other APIs](node_modules/report-exporter/docs/apis.md) explains them, and has a dozen examples. \`probe\` requests two pages and shows
what was sent and found; it stores nothing. Then set address and key:`;

const readme = ({ name, serviceName, vendor, node }: ProjectTemplate) => `# ${name}

Exports reports on a schedule, with [Report Exporter](node_modules/report-exporter/README.md). \`report-exporter.json\` has the service
and its exports; [Settings](node_modules/report-exporter/docs/settings.md) explains every setting.

## On this machine

You need Node.js ${node.replace('>=', '')} or newer, and no AWS account.

\`\`\`console
$ npm install
${vendor === undefined ? '' : simulating}\`\`\`

${vendor === undefined ? howToDescribeApi : howToSetService}

\`\`\`console
$ export REPORT_EXPORT_API_KEY=…
${vendor === undefined ? probing : ''}$ npx report-exporter doctor --settings report-exporter.json   # checks the file, the key and the service
$ npx report-exporter local --settings report-exporter.json --out ./exports/${serviceName}
$ npx report-exporter start --out ./exports/${serviceName}       # again, with the settings as they are then
\`\`\`

## On AWS

1. Check the settings: \`npm run synth\`
2. Once per account and region: \`npx cdk bootstrap\`
3. \`npm run deploy\`
4. Store the API key in the secret whose ID is the stack's output \`${outputPrefix(serviceName)}ApiKeySecretId\`:
   \`\`\`console
   $ read -rs KEY && printf %s "$KEY" | aws secretsmanager put-secret-value --secret-id <ID> --secret-string file:///dev/stdin
   \`\`\`
5. Start the first export:
   \`\`\`console
   $ npx report-exporter start nightly --stack ReportExporter --follow
   \`\`\`
6. Enable the schedule: set \`"enabled": true\` in \`report-exporter.json\`, and run \`npm run deploy\`.
`;

/** As the outputs of the stack begin: `eu-reports` → `EuReports`. */
const outputPrefix = (serviceName: string): string =>
  serviceName.replaceAll(/(?:^|-+)([a-z0-9]?)/g, (_, first: string) => first.toUpperCase());
