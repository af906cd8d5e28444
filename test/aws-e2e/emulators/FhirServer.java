import ca.uhn.fhir.context.FhirContext;
import ca.uhn.fhir.rest.annotation.RequiredParam;
import ca.uhn.fhir.rest.annotation.Search;
import ca.uhn.fhir.rest.api.server.IBundleProvider;
import ca.uhn.fhir.rest.param.DateRangeParam;
import ca.uhn.fhir.rest.server.FifoMemoryPagingProvider;
import ca.uhn.fhir.rest.server.IResourceProvider;
import ca.uhn.fhir.rest.server.RestfulServer;
import ca.uhn.fhir.rest.server.SimpleBundleProvider;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;
import org.hl7.fhir.r4.model.Observation;

/** A FHIR server: bundles and paging are HAPI's own. It has 95 observations, one every 20 days from 2020 on. */
public class FhirServer {
  public static void main(String[] arguments) throws Exception {
    var fhir = new RestfulServer(FhirContext.forR4());
    var pages = new FifoMemoryPagingProvider(100);
    pages.setDefaultPageSize(10);
    pages.setMaximumPageSize(50);
    fhir.setPagingProvider(pages);
    fhir.setResourceProviders(new Observations());

    var server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
    var context = new ServletContextHandler();
    context.addServlet(new ServletHolder(fhir), "/r4/*");
    server.setHandler(context);
    server.start();
    server.join();
  }

  public static class Observations implements IResourceProvider {
    private final List<Observation> all = new ArrayList<>();

    public Observations() {
      for (int index = 0; index < 95; index++) {
        var observation = new Observation();
        observation.setId(String.format("observation-%03d", index));
        observation.getMeta().setLastUpdated(Date.from(Instant.parse("2020-01-01T00:00:00Z").plus(Duration.ofDays(20L * index))));
        observation.getCode().setText("temperature, in \u00b0C");
        all.add(observation);
      }
    }

    @Override
    public Class<Observation> getResourceType() {
      return Observation.class;
    }

    /** The bounds are inclusive and exclusive, as in `ge2026-11-01` and `lt2026-11-02`. */
    @Search
    public IBundleProvider search(@RequiredParam(name = "_lastUpdated") DateRangeParam range) {
      var since = range.getLowerBoundAsInstant();
      var until = range.getUpperBoundAsInstant();
      return new SimpleBundleProvider(all.stream().filter(one -> {
        var date = one.getMeta().getLastUpdated();
        return !date.before(since) && date.before(until);
      }).toList());
    }
  }
}
