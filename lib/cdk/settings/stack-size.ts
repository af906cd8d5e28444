/**
 * How large a stack the settings need, known before anything is synthesized. The number of resources is exact. The size of the
 * template is an upper bound: the constants were measured in synthesized templates and rounded up by about ten percent. A test
 * compares both with synthesized stacks.
 */

import { endpointKinds, type VpcSettings } from '../../settings/account-settings.ts';
import {
  type DeploymentSettings,
  defaultStackName,
  type ExportDeploymentSettings,
  type ServiceDeploymentSettings,
  type ServiceInput,
} from '../../settings/deployment-settings.ts';
import { serviceMetadataText } from '../../settings/stack-output.ts';
import { alarmedAge, scheduleSettingsSchema } from '../../settings/schedule-settings.ts';
import { hasAlarmsPerExport, serviceMetadata } from './deployed-export.ts';

/** CloudFormation's own limits. */
const maxResources = 500;
const maxTemplateBytes = 1_000_000;

/** What the stack needs and what to do, if CloudFormation could not hold it; otherwise undefined. */
export function findSizeProblem(settings: DeploymentSettings): string | undefined {
  const size = stackSize(settings);
  if (isWithinLimits(size)) return undefined;
  const smaller = stackSize({ ...settings, alarms: { ...settings.alarms, perExport: false } });
  const alternative = isWithinLimits(smaller)
    ? `, or set alarms.perExport to false, which reduces it to ${formatSize(smaller)}`
    : '';
  const { templateBytes, settingsBytes } = size;
  const share =
    templateBytes > maxTemplateBytes
      ? `; the settings of services and exports, filters included, take ${formatNumber(settingsBytes)} bytes of it`
      : '';
  const canBeShortened = share !== '' && isWithinLimits({ ...size, templateBytes: templateBytes - settingsBytes });
  const remedy = canBeShortened ? 'Shorten them, or split the exports' : 'Split the exports';
  return (
    `needs a stack of ${formatSize(size)}, but a CloudFormation stack holds ${formatNumber(maxResources)} resources and ` +
    `${formatNumber(maxTemplateBytes)} bytes of template${share}. ${remedy} into several stacks, each with settings and a ` +
    `stackName of its own${alternative}`
  );
}

const isWithinLimits = ({ resources, templateBytes }: StackSize) =>
  resources <= maxResources && templateBytes <= maxTemplateBytes;

const formatNumber = (value: number) => value.toLocaleString('en-US');
const formatSize = ({ resources, templateBytes }: StackSize) =>
  `${formatNumber(resources)} resources and up to ${formatNumber(templateBytes)} bytes of template`;

export interface StackSize {
  readonly resources: number;
  /** At most this many. */
  readonly templateBytes: number;
  /** How many of them are the settings of services and exports as text. */
  readonly settingsBytes: number;
}

type PartSize = Omit<StackSize, 'settingsBytes'> & Partial<StackSize>;

export function stackSize(settings: DeploymentSettings): StackSize {
  return sumOf([sharedSize(settings), ...settings.services.map((service) => serviceSize(settings, service))]);
}

function sumOf(sizes: readonly PartSize[]): StackSize {
  return sizes.reduce<StackSize>(
    (sum, size) => ({
      resources: sum.resources + size.resources,
      templateBytes: sum.templateBytes + size.templateBytes,
      settingsBytes: sum.settingsBytes + (size.settingsBytes ?? 0),
    }),
    { resources: 0, templateBytes: 0, settingsBytes: 0 },
  );
}

/** The bucket, the table, the alarm topic, the dashboard. */
function sharedSize(settings: DeploymentSettings): PartSize {
  const { stackName = defaultStackName, bucket, kmsKeyArn, alarms, network, services } = settings;
  const { createEndpoints = [], subnetIds = [], routeTableIds = [], vpcCidrs = [] } = network ?? {};
  const interfaces = createEndpoints.filter((name) => endpointKinds[name] === 'interface');
  const readers = new Set(services.flatMap(({ readerAccounts = [] }) => readerAccounts)).size;
  return {
    resources:
      // The table, its two alarms, the dashboard.
      4 +
      // The bucket and its policy.
      (bucket.existing === undefined ? 2 : 0) +
      // The topic, its policy and its key.
      (alarms.existingTopicArn === undefined ? 3 : 0) +
      (alarms.email === undefined ? 0 : 1) +
      // The endpoints, and the security group of those with an interface.
      createEndpoints.length +
      (interfaces.length === 0 ? 0 : 1),
    templateBytes:
      12_000 -
      // What is not created.
      (bucket.existing === undefined ? 0 : 800) -
      (alarms.existingTopicArn === undefined ? 0 : 1_000) +
      20 * stackName.length +
      3 * (bucket.existing ?? '').length +
      keyBytes(kmsKeyArn, 150, 2) +
      keyBytes(bucket.kmsKeyArn ?? kmsKeyArn, 150, 2) +
      // The topic and the two alarms of the table.
      4 * (alarms.existingTopicArn ?? '').length +
      2 * runbookBytes(alarms) +
      (alarms.email === undefined ? 0 : 300 + jsonBytes(alarms.email)) +
      createEndpoints.length * 420 +
      (createEndpoints.length - interfaces.length) * jsonBytes(JSON.stringify(routeTableIds)) +
      interfaces.length * jsonBytes(JSON.stringify(subnetIds)) +
      (interfaces.length === 0 ? 0 : 700 + 180 * vpcCidrs.length) +
      // The statement for the key.
      (readers === 0 || (bucket.kmsKeyArn ?? kmsKeyArn) === undefined ? 0 : 500 + 75 * readers),
  };
}

function serviceSize(deployment: DeploymentSettings, settings: ServiceDeploymentSettings): StackSize {
  const { stackName = defaultStackName, bucket, kmsKeyArn, alarms, network, env, permissionsBoundary } = deployment;
  const { name, prefix, service, apiKeySecret, readerAccounts, exports } = settings;
  const perExport = hasAlarmsPerExport(alarms.perExport, exports.length);
  const isScheduled = exports.some(({ schedule }) => schedule !== undefined);
  const hasBackfills = service.filterUntil !== undefined;
  /** The fixed bytes of the lifecycle rule of each export. */
  const { lifecycle } = bucket;
  const ruleBytes = lifecycle === undefined ? 0 : 125 + 68 * (lifecycle.transitions?.length ?? 0);
  const exportSizes = exports.map((each) => exportSize(stackName, settings, perExport, ruleBytes, each));
  const alarmCount =
    // Seven, without a schedule six, those of backfills, and the one that the exports have in common.
    (isScheduled ? 7 : 6) + (hasBackfills ? 2 : 0) + (perExport ? 0 : 1);
  const createsSecurityGroup = network !== undefined && network.securityGroupIds === undefined;
  const resources =
    // Four functions with role, policy and log group; the state machine with role, three policies and log group.
    22 +
    // The queue and its policy, the schedule group, the role and its policy.
    (isScheduled ? 5 : 0) +
    // The state machine of backfills with role, two policies and log group.
    (hasBackfills ? 5 : 0) +
    alarmCount +
    (apiKeySecret.existing === undefined ? 1 : 0) +
    (createsSecurityGroup ? 1 : 0);
  const settingsBytes = jsonBytes(serviceMetadataText(serviceMetadata(service, exports)));
  const templateBytes =
    37_000 -
    // References to the account.
    (env?.account === undefined ? 0 : 400) +
    48 * stackName.length +
    200 * name.length +
    6 * prefix.length +
    8 * (bucket.existing ?? '').length +
    keyBytes(kmsKeyArn, 1_300, 5) +
    // In the policies and in the variables of two functions.
    keyBytes(bucket.kmsKeyArn ?? kmsKeyArn, 600, 5) +
    keyBytes(apiKeySecret.kmsKeyArn ?? kmsKeyArn, 300, 2) +
    5 * (apiKeySecret.existing ?? '').length +
    4 * jsonBytes(apiKeySecret.field ?? '') +
    networkSecretBytes(service, kmsKeyArn) +
    // Descriptions that list names of exports.
    (perExport ? 1_300 : 2_600) +
    alarmCount * ((alarms.existingTopicArn ?? '').length + runbookBytes(alarms)) +
    (network === undefined ? 0 : networkBytes(network, name)) +
    (hasBackfills ? 10_400 + stackName.length + 33 * name.length : 0) +
    // Those of the functions and the state machine, with a schedule that of Scheduler, and that of backfills.
    (5 + (isScheduled ? 1 : 0) + (hasBackfills ? 1 : 0)) * boundaryBytes(permissionsBoundary) +
    (readerAccounts === undefined ? 0 : 400 + 2 * prefix.length + 170 * readerAccounts.length) +
    settingsBytes;
  // Every alarm refers to the topic and to the runbook.
  const alarmBytes =
    exportSizes.reduce((sum, each) => sum + each.resources, 0) *
    ((alarms.existingTopicArn ?? '').length + runbookBytes(alarms));
  return sumOf([{ resources, templateBytes: templateBytes + alarmBytes, settingsBytes }, ...exportSizes]);
}

/** The statements that let ExportPage read the client certificate and the credentials for the proxy. */
function networkSecretBytes({ tls, proxyCredentialsSecret }: ServiceInput, kmsKeyArn: string | undefined): number {
  const secretIds = [tls?.clientCertificateSecret, proxyCredentialsSecret].filter((id) => id !== undefined);
  const keyBytes = kmsKeyArn === undefined ? 0 : 400 + kmsKeyArn.length;
  return secretIds.reduce((sum, id) => sum + 400 + id.length + keyBytes, 0);
}

const boundaryBytes = (nameOrArn: string | undefined): number =>
  nameOrArn === undefined ? 0 : nameOrArn.length + (nameOrArn.startsWith('arn:') ? 35 : 130);

/** The security group of a service, the VPC configuration of its four functions, and the permissions of their roles. */
function networkBytes({ subnetIds, securityGroupIds }: VpcSettings, serviceName: string): number {
  const groupBytes = securityGroupIds === undefined ? 1_700 + 12 * serviceName.length : 640 * securityGroupIds.length;
  return 3_200 + 640 * subnetIds.length + groupBytes;
}

/** The schedule and the alarms of an export. */
function exportSize(
  stackName: string,
  { name: serviceName, prefix }: ServiceDeploymentSettings,
  perExport: boolean,
  ruleBytes: number,
  { name, schedule, expect }: ExportDeploymentSettings,
): StackSize {
  /** The fixed bytes of a part, and those for each character of the names in it. */
  const bytes = (fixed: number, ofStack: number, ofService: number, ofExport: number) =>
    fixed + ofStack * stackName.length + ofService * serviceName.length + ofExport * name.length;
  const parsed = schedule === undefined ? undefined : scheduleSettingsSchema.parse(schedule);
  return sumOf([
    ...(parsed === undefined
      ? []
      : [
          {
            resources: 1,
            templateBytes: bytes(950, 3, 9, 8) + jsonBytes(parsed.expression) + jsonBytes(parsed.timeZone),
          },
        ]),
    // NotFresh.
    ...(alarmedAge(parsed) === undefined ? [] : [{ resources: 1, templateBytes: bytes(790, 3, 3, 5) }]),
    // NoReports.
    ...(expect?.reportsEvery === undefined ? [] : [{ resources: 1, templateBytes: bytes(690, 3, 3, 5) }]),
    ...(ruleBytes === 0 ? [] : [{ resources: 0, templateBytes: ruleBytes + prefix.length + name.length }]),
    // RunFailed and Waiting.
    ...(perExport ? [{ resources: 2, templateBytes: bytes(1_300, 5, 5, 10) }] : []),
  ]);
}

/** Of the address in the description of an alarm. */
const runbookBytes = ({ runbookUrl }: DeploymentSettings['alarms']) =>
  runbookUrl === undefined ? runbookInPackageBytes : jsonBytes(runbookUrl);

/** How much longer the path in the package is than the shortest address. */
const runbookInPackageBytes = 30;

const keyBytes = (arn: string | undefined, fixed: number, occurrences: number) =>
  arn === undefined ? 0 : fixed + occurrences * arn.length;

const jsonBytes = (text: string) => Buffer.byteLength(JSON.stringify(text));
