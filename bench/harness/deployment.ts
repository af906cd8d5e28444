/** Settings as they are parsed from a file with one service and one export. */

import { parseDeployment, type ServiceDeploymentSettings } from '../../lib/settings/deployment-settings.ts';
import { valueDocument } from '../../lib/settings/settings-document.ts';
import type { ExportSettings } from '../../lib/settings/settings.ts';

export function deploymentOf(service: object, settings: object) {
  const value = { services: { bench: service }, exports: [settings] };
  const { services } = parseDeployment(valueDocument(value, 'bench'));
  const [deployed] = services as [ServiceDeploymentSettings];
  return { service: deployed.service, exports: deployed.exports as readonly [ExportSettings] };
}
