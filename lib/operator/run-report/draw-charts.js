/*
 * Draws the charts of the run report. Runs in the browser, after uPlot, with the values of the element `run-data`
 * (`chartData` in charts.ts). A text next to each chart states the same facts.
 */
(() => {
  const { uPlot } = window;
  const data = JSON.parse(document.getElementById('run-data').textContent);
  const { pagesPerPoint } = data;
  const isNarrow = matchMedia('(width < 40rem)');

  /* Formats */

  const formatNumber = (value) => value.toLocaleString('en', { maximumFractionDigits: Math.abs(value) < 100 ? 1 : 0 });

  const formatDuration = (ms) => {
    if (ms < 1_000) return `${formatNumber(ms)} ms`;
    if (ms < 60_000) return `${formatNumber(ms / 1_000)} s`;
    if (ms < 3_600_000) return `${formatNumber(ms / 60_000)} min`;
    return ms < 86_400_000 ? `${formatNumber(ms / 3_600_000)} h` : `${formatNumber(ms / 86_400_000)} d`;
  };

  const formatBytes = (bytes) => {
    const power = Math.min(4, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)));
    return `${formatNumber(bytes / 1_000 ** power)} ${['B', 'kB', 'MB', 'GB', 'TB'][power]}`;
  };

  const toIso = (seconds) => new Date(seconds * 1_000).toISOString();
  const formatTimeOfDay = (seconds) => toIso(seconds).slice(11, 19);
  const formatDay = (seconds) =>
    new Date(seconds * 1_000).toLocaleDateString('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });

  /* Colors */

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const font = () => `12px ${getComputedStyle(document.body).fontFamily}`;
  const withAlpha = (hex, alpha) =>
    `${hex}${Math.round(alpha * 255)
      .toString(16)
      .padStart(2, '0')}`;

  /* Scales and axes */

  const decimalSteps = Array.from({ length: 16 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();
  const clockSteps = [15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 28_800, 43_200, 86_400];
  const daySteps = decimalSteps.slice(1, 12).map((days) => days * 86_400);
  const durationSteps = [
    ...decimalSteps.filter((ms) => ms <= 10_000),
    ...[...clockSteps, ...daySteps].map((seconds) => seconds * 1_000),
  ];

  const axis = (overrides) => ({
    stroke: color('quiet'),
    font: font(),
    grid: { stroke: color('faint'), width: 1 },
    ticks: { show: false },
    ...overrides,
  });
  const valueAxis = (format, incrs) =>
    axis({
      scale: 'y',
      size: isNarrow.matches ? 54 : 64,
      gap: 8,
      space: 30,
      incrs,
      values: (_, splits) => splits.map((value) => (value === 0 ? '0' : format(value))),
    });
  const horizontalAxis = (overrides) => axis({ size: 30, gap: 6, grid: { show: false }, ...overrides });

  const pageAxis = () =>
    horizontalAxis({
      space: 60,
      incrs: decimalSteps,
      values: (_, splits) => {
        const isPage = (value) => value >= 1 && Number.isInteger(value);
        const first = splits.find(isPage);
        return splits.map((value) => {
          if (!isPage(value)) return '';
          return value === first ? `page ${formatNumber(value)}` : formatNumber(value);
        });
      },
    });

  const timeAxis = () =>
    horizontalAxis({
      size: 46,
      // Labels with fractions of a second are wider.
      space: data.end - data.start < 5 ? 110 : isNarrow.matches ? 64 : 84,
      values: (_, splits, __, ___, step) =>
        splits.map((seconds, index) => {
          const isNewDay = index === 0 || formatDay(seconds) !== formatDay(splits[index - 1]);
          if (step >= 86_400) return formatDay(seconds);
          const label = timeLabel(seconds, step);
          return isNewDay ? `${label}\n${formatDay(seconds)}` : label;
        }),
    });

  const timeLabel = (seconds, step) => {
    if (step >= 60) return formatTimeOfDay(seconds).slice(0, 5);
    if (step >= 1) return formatTimeOfDay(seconds);
    return toIso(seconds)
      .slice(11, 23)
      .replace(/0{1,2}$/, '');
  };

  /**
   * The top of the scale. A few extreme outliers would flatten all other values: then the scale ends above the common
   * values, and the outliers are marked.
   */
  const scaleOf = (values) => {
    const sorted = values.filter((value) => value !== null).sort((a, b) => a - b);
    const max = sorted.at(-1) || 1;
    const p95 = sorted[Math.floor(0.95 * (sorted.length - 1))] || max;
    return sorted.length >= 20 && max > 4 * p95
      ? { top: 2 * p95, hasOutliers: true }
      : { top: max * 1.08, hasOutliers: false };
  };

  /* Drawing */

  const draw = (
    id,
    { height, scales, axes, series, values, hooks = {}, bands = [], defaultReadout = '', describe, isSynced },
  ) => {
    const container = document.getElementById(id);
    if (container === null) return [];
    const hasSideLabels = id !== 'bytes' && id !== 'reports';
    const currentHeight = () => (isNarrow.matches ? Math.round(height * 0.8) : height);
    const options = {
      width: container.clientWidth,
      height: currentHeight(),
      padding: [10, hasSideLabels ? 58 : 20, 0, 0],
      legend: { show: false },
      cursor: {
        y: false,
        points: { show: false },
        drag: { x: true, y: false },
        ...(isSynced ? { sync: { key: 'pages', scales: ['x', null] } } : {}),
      },
      scales,
      axes,
      series: [{}, ...series],
      bands,
      hooks: { ...hooks, setCursor: [showReadout(id, describe, defaultReadout)] },
    };
    return [{ container, height: currentHeight, plot: new uPlot(options, values, container) }];
  };

  /** Describes the point under the pointer below the chart. */
  const showReadout = (id, describe, defaultReadout) => (u) => {
    const { idx, left } = u.cursor;
    const isOutside = idx === null || idx === undefined || left < 0;
    document.getElementById(`${id}-readout`).textContent = isOutside ? defaultReadout : describe(idx);
  };

  const outlierReadout = (hasOutliers) => (hasOutliers ? '▲ off the scale' : '');

  /* The timeline: x is time */

  const timelineChart = () => {
    const { start, end, waits, attempts, failures } = data;
    const lastPage = data.firstPage.at(-1) + data.pages.at(-1) - 1;
    // From page 0 at the start to the last page at the end of the run.
    const times = [start, ...data.loggedAt, Math.max(end, data.loggedAt.at(-1))];
    const logged = [0, ...data.firstPage.map((first, index) => first + data.pages[index] - 1), lastPage];
    const latest = times.at(-1);
    const margin = Math.max((latest - start) * 0.01, 0.005);
    const pagesLoggedBy = (time) => {
      let low = 0;
      let high = times.length - 1;
      while (low < high) {
        const middle = Math.ceil((low + high) / 2);
        if (times[middle] <= time) low = middle;
        else high = middle - 1;
      }
      return logged[low];
    };
    const clipped = (u, paint) => {
      const { ctx, bbox } = u;
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top - 8 * devicePixelRatio, bbox.width, bbox.height + 8 * devicePixelRatio);
      ctx.clip();
      paint(ctx, bbox, devicePixelRatio);
      ctx.restore();
    };
    const drawWaits = (u) =>
      clipped(u, (ctx, { top, height }, ratio) => {
        ctx.fillStyle = withAlpha(color('wait'), 0.55);
        for (const [at, seconds] of waits) {
          const left = u.valToPos(at, 'x', true);
          const right = u.valToPos(Math.min(at + seconds, latest), 'x', true);
          ctx.fillRect(left, top, Math.max(2 * ratio, right - left), height);
        }
      });
    const drawFailures = (u) =>
      clipped(u, (ctx, { top, height }, ratio) => {
        ctx.fillStyle = color('attempt');
        for (const [at] of failures) ctx.fillRect(u.valToPos(at, 'x', true) - ratio, top, 2 * ratio, height);
        ctx.strokeStyle = color('page');
        ctx.lineWidth = 1.5 * ratio;
        // Many attempts would cover the line, so they are drawn as ticks at the bottom.
        const isCrowded = attempts.length > 40;
        for (const [at] of attempts) {
          const x = u.valToPos(at, 'x', true);
          if (isCrowded) ctx.fillRect(x - 0.75 * ratio, top + height - 8 * ratio, 1.5 * ratio, 8 * ratio);
          else drawDiamond(ctx, x, u.valToPos(pagesLoggedBy(at), 'y', true), 5.5 * ratio);
        }
      });
    return draw('timeline', {
      height: 260,
      scales: {
        x: {
          time: true,
          range: (_, min, max) =>
            max - min < 0.001 ? [min - margin, max + margin] : [min, max + (max === latest ? margin : 0)],
        },
        y: { range: () => [0, lastPage * 1.04] },
      },
      axes: [timeAxis(), valueAxis(formatNumber, decimalSteps)],
      series: [
        {
          stroke: color('line'),
          width: 2,
          fill: withAlpha(color('line'), 0.08),
          points: { show: false },
          paths: uPlot.paths.stepped({ align: 1 }),
        },
      ],
      values: [times, logged],
      hooks: { drawAxes: [drawWaits], draw: [drawFailures] },
      describe: (index) =>
        `${formatDay(times[index])}, ${formatTimeOfDay(times[index])} UTC · ${formatNumber(logged[index])} pages logged`,
    });
  };

  const drawDiamond = (ctx, x, y, radius) => {
    ctx.beginPath();
    ctx.moveTo(x, y - radius);
    ctx.lineTo(x + radius, y);
    ctx.lineTo(x, y + radius);
    ctx.lineTo(x - radius, y);
    ctx.closePath();
    ctx.stroke();
    ctx.fill();
  };

  /* Page charts: x is the page number, each point at the center of its pages */

  const centers = data.firstPage.map((first) => first + (pagesPerPoint - 1) / 2);
  const firstEdge = data.firstPage[0] - 0.5;
  const lastEdge = data.firstPage.at(-1) + pagesPerPoint - 0.5;

  const pagesAt = (index) => {
    const first = data.firstPage[index];
    const last = first + data.pages[index] - 1;
    return first === last ? `Page ${formatNumber(first)}` : `Pages ${formatNumber(first)}–${formatNumber(last)}`;
  };

  const pageScales = (top) => ({
    x: {
      time: false,
      range: (_, min, max) => (min === max || min === null ? [firstEdge, lastEdge] : [min, max]),
      auto: false,
      min: firstEdge,
      max: lastEdge,
    },
    y: { range: () => [0, top] },
  });

  /** Small triangles at the top, above the values that are off the scale. */
  const outlierMarks = (values, top) => (u) => {
    const { ctx, bbox } = u;
    const radius = 4 * devicePixelRatio;
    ctx.save();
    ctx.fillStyle = color('ink');
    for (const [index, value] of values.entries()) {
      const x = u.valToPos(centers[index], 'x', true);
      if (value === null || value <= top || x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x - radius, bbox.top + radius * 1.2);
      ctx.lineTo(x + radius, bbox.top + radius * 1.2);
      ctx.lineTo(x, bbox.top - radius * 0.4);
      ctx.fill();
    }
    ctx.restore();
  };

  /** Stacked columns: between pages, latency, transfer. */
  const phasesChart = () => {
    const { between, latency, transfer } = data;
    const sumOf = (...columns) =>
      centers.map((_, index) =>
        between[index] === null ? null : columns.reduce((sum, column) => sum + column[index], 0),
      );
    const total = sumOf(between, latency, transfer);
    const { top, hasOutliers } = scaleOf(total);
    const bars = (name) => ({
      fill: color(name),
      width: 0,
      stroke: color(name),
      points: { show: false },
      paths: barPaths,
    });
    return draw('phases', {
      isSynced: true,
      height: 240,
      scales: pageScales(top),
      axes: [pageAxis(), valueAxis(formatDuration, durationSteps)],
      // Each series is drawn over the previous, larger one, so its own part stays visible.
      series: [bars('transfer'), bars('latency'), bars('between')],
      values: [centers, total, sumOf(between, latency), between],
      hooks: { draw: [outlierMarks(total, top)] },
      defaultReadout: outlierReadout(hasOutliers),
      describe: (index) =>
        between[index] === null
          ? `${pagesAt(index)} · adopted, no times`
          : `${pagesAt(index)} · ${formatDuration(between[index])} between pages, ${formatDuration(latency[index])} latency, ${formatDuration(transfer[index])} transfer`,
    });
  };

  const barPaths = (u, ...rest) => {
    const width = (u.bbox.width * pagesPerPoint) / (u.scales.x.max - u.scales.x.min) / devicePixelRatio;
    const gap = width > 6 ? 1.5 : width > 3 ? 0.75 : 0;
    return uPlot.paths.bars({ size: [1, 40], gap, align: 0 })(u, ...rest);
  };

  /** A line over the pages. If a point represents several pages, the line is their mean, with their range around it. */
  const lineChart = (id, { values, range, format, incrs, height, levels = [] }) => {
    const { top, hasOutliers } = scaleOf([...values, ...levels.map(({ at }) => at), ...(range?.[1] ?? [])]);
    const hasPoints = values.length <= 400;
    const line = {
      stroke: color('line'),
      width: hasPoints ? 1 : 1.25,
      spanGaps: false,
      points: {
        show: hasPoints,
        size: values.length > 150 ? 3.5 : 5,
        fill: color('line'),
        stroke: color('line'),
        width: 0,
      },
    };
    const hidden = { width: 0, points: { show: false } };
    const rangeSeries =
      range === null
        ? { series: [line], values: [centers, values] }
        : {
            series: [hidden, hidden, line],
            bands: [{ series: [2, 1], fill: withAlpha(color('line'), 0.22) }],
            values: [centers, ...range, values],
          };
    return draw(id, {
      isSynced: true,
      height,
      scales: pageScales(top),
      axes: [pageAxis(), valueAxis(format, incrs)],
      ...rangeSeries,
      hooks: { draw: [levelLines(levels, format), outlierMarks(range?.[1] ?? values, top)] },
      defaultReadout: outlierReadout(hasOutliers),
      describe: (index) => {
        if (values[index] === null) return `${pagesAt(index)} · no data`;
        const rangeText = range === null ? '' : ` on average, ${format(range[0][index])} to ${format(range[1][index])}`;
        return `${pagesAt(index)} · ${format(values[index])}${rangeText}`;
      },
    });
  };

  /** Dashed horizontal lines with labels to their right. */
  const levelLines = (levels, format) => (u) => {
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.font = `${12 * ratio}px ${getComputedStyle(document.body).fontFamily}`;
    ctx.strokeStyle = color('ink');
    ctx.lineWidth = ratio;
    ctx.setLineDash([4 * ratio, 4 * ratio]);
    const heights = levels.map(({ at }) => Math.round(u.valToPos(at, 'y', true)) + 0.5);
    for (const y of heights) {
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
    }
    // Labels of lines that are close together are moved apart.
    const [lower, upper] = heights;
    const offset = upper === undefined ? 0 : Math.max(0, (34 * ratio - (lower - upper)) / 2);
    ctx.textAlign = 'left';
    ctx.fillStyle = color('ink');
    for (const [index, { at, name }] of levels.entries()) {
      const x = bbox.left + bbox.width + 6 * ratio;
      const y = heights[index] + (index === 0 ? offset : -offset);
      ctx.fillText(name, x, y - 3 * ratio);
      ctx.fillText(format(at), x, y + 11 * ratio);
    }
    ctx.restore();
  };

  const drawCharts = () => {
    const { median, p95 } = data;
    const levels =
      median === null ? [] : [{ at: median, name: 'median' }, ...(p95 > median ? [{ at: p95, name: 'p95' }] : [])];
    return [
      ...timelineChart(),
      ...(median === null ? [] : phasesChart()),
      ...lineChart('latency', {
        values: data.latency,
        range: data.latencyRange,
        format: formatDuration,
        incrs: durationSteps,
        height: 220,
        levels,
      }),
      ...lineChart('bytes', {
        values: data.bytes,
        range: data.bytesRange,
        format: formatBytes,
        incrs: decimalSteps,
        height: 160,
      }),
      ...lineChart('reports', {
        values: data.reports,
        range: data.reportsRange,
        format: formatNumber,
        incrs: decimalSteps,
        height: 160,
      }),
    ];
  };

  /* Redraw for another color scheme and for printing, resize with the window */

  let charts = drawCharts();
  const redraw = () => {
    for (const { plot } of charts) plot.destroy();
    charts = drawCharts();
  };
  const resize = () => {
    for (const { container, plot, height } of charts) {
      if (container.clientWidth > 0) plot.setSize({ width: container.clientWidth, height: height() });
    }
  };
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  new ResizeObserver(resize).observe(document.querySelector('main'));
  addEventListener('beforeprint', () => {
    document.documentElement.classList.add('printing');
    redraw();
    for (const { plot, height } of charts) plot.setSize({ width: Math.min(680, plot.width), height: height() });
  });
  addEventListener('afterprint', () => {
    document.documentElement.classList.remove('printing');
    redraw();
  });
})();
